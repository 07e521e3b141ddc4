# delete: unlink files of 4 KiB until none is left.
#
# ByteFS paper, Table 5:        1M files of 4 KB, 12 threads.
# Authors' `baseline` branch:   dirwidth 100, all files preallocated in parallel, memsize 10m, the loop, and the end
#                               after 1,000,000 operations. It has 1,100,000 files, so that 100,000 remain; here the
#                               table's 1M counts, and the last thread that finds no file ends the run.

set $dir=/data
set $nfiles=1000000
set $meandirwidth=100
set $filesize=4k
set $nthreads=12
set $count=1000000

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100,paralloc,reuse=true

define process name=filedelete,instances=1
{
  thread name=filedeletethread,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop opslimit name=limit
    flowop finishoncount name=finish,value=$count
  }
}

run
