# create: make a file of 4 KiB, write it, fsync it, close it.
#
# ByteFS paper, Table 5:        1M files of 4 KB, 12 threads.
# Authors' `baseline` branch:   dirwidth 100,000, half of the files preallocated, I/O size 1m, memsize 10m,
#                               the loop, the fsync, and the end after 1,000,000 operations.
#
# An operation is one flowop that does I/O: four of them make one file, so 1,000,000 operations make 250,000 files.

set $dir=/data
set $nfiles=1000000
set $meandirwidth=100000
set $filesize=4k
set $iosize=1m
set $nthreads=12
set $count=1000000

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=50

define process name=filecreate,instances=1
{
  thread name=filecreatethread,memsize=10m,instances=$nthreads
  {
    flowop createfile name=createfile1,filesetname=bigfileset,fd=1
    flowop writewholefile name=writefile1,fd=1,iosize=$iosize
    flowop fsync name=fsyncfile1,fd=1
    flowop closefile name=closefile1,fd=1
    flowop finishoncount name=finish,value=$count
  }
}

run
