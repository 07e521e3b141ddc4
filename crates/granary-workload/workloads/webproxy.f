# webproxy: a caching proxy. Each loop replaces one object and reads five. No fsync.
#
# ByteFS paper, Table 5:        1M files of 16 KB, 12 threads.
# Authors' `baseline` branch:   files of exactly 16k, dirwidth 1,000,000 (a few huge directories: widths are gamma
#                               distributed), 80 % preallocated, I/O size 1m, appends up to 16k, memsize 10m, the
#                               loop, and the end after 500,000 operations.

set $dir=/data
set $nfiles=1000000
set $meandirwidth=1000000
set $meanfilesize=16k
set $nthreads=12
set $meaniosize=16k
set $iosize=1m
set $count=500000

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=$meanfilesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80,reuse=true

define process name=proxycache,instances=1
{
  thread name=proxycache,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filesetname=bigfileset

    flowop createfile name=createfile1,filesetname=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand1,iosize=$meaniosize,fd=1
    flowop closefile name=closefile1,fd=1

    flowop openfile name=openfile2,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile2,fd=1,iosize=$iosize
    flowop closefile name=closefile2,fd=1

    flowop openfile name=openfile3,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile3,fd=1,iosize=$iosize
    flowop closefile name=closefile3,fd=1

    flowop openfile name=openfile4,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile4,fd=1,iosize=$iosize
    flowop closefile name=closefile4,fd=1

    flowop openfile name=openfile5,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile5,fd=1,iosize=$iosize
    flowop closefile name=closefile5,fd=1

    flowop openfile name=openfile6,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile6,fd=1,iosize=$iosize
    flowop closefile name=closefile6,fd=1

    flowop opslimit name=limit
    flowop finishoncount name=finish,value=$count
  }
}

run
