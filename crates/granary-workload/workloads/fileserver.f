# fileserver: a file server. Each loop writes a file, adds to one, reads one, deletes one and looks at one. No fsync.
#
# ByteFS paper, Table 5:        100k files of 128 KB, 12 threads.
# Authors' `baseline` branch:   file sizes gamma distributed (mean 131072, shape 1.5), dirwidth 20, 80 % preallocated,
#                               I/O size 1m, appends up to 16k, memsize 10m, the loop, and the end after
#                               1,000,000 operations.

set $dir=/data
set $nfiles=100000
set $meandirwidth=20
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $nthreads=12
set $iosize=1m
set $meanappendsize=16k
set $count=1000000

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80,reuse=true

define process name=filereader,instances=1
{
  thread name=filereaderthread,memsize=10m,instances=$nthreads
  {
    flowop createfile name=createfile1,filesetname=bigfileset,fd=1
    flowop writewholefile name=wrtfile1,srcfd=1,fd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1

    flowop openfile name=openfile1,filesetname=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand1,iosize=$meanappendsize,fd=1
    flowop closefile name=closefile2,fd=1

    flowop openfile name=openfile2,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile3,fd=1

    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop statfile name=statfile1,filesetname=bigfileset

    flowop finishoncount name=finish,value=$count
  }
}

run
