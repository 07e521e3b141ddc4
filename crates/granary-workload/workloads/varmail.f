# varmail: a mail server. Each loop deletes a mail, writes a new one, adds to another, and reads two.
#
# ByteFS paper, Table 5:        1M files of 16 KB, 12 threads.
# Authors' `baseline` branch:   file sizes gamma distributed (mean 16384, shape 1.5), dirwidth 1,000,000 (a few
#                               huge directories: widths are gamma distributed), 80 % preallocated, I/O size 1m,
#                               appends up to 16k, memsize 10m, the loop, and the end after 500,000 operations.

set $dir=/data
set $nfiles=1000000
set $meandirwidth=1000000
set $filesize=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)
set $nthreads=12
set $iosize=1m
set $meanappendsize=16k
set $count=500000

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80,reuse=true

define process name=filereader,instances=1
{
  thread name=filereaderthread,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=deletefile1,filesetname=bigfileset

    flowop createfile name=createfile2,filesetname=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand2,iosize=$meanappendsize,fd=1
    flowop fsync name=fsyncfile2,fd=1
    flowop closefile name=closefile2,fd=1

    flowop openfile name=openfile3,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile3,fd=1,iosize=$iosize
    flowop appendfilerand name=appendfilerand3,iosize=$meanappendsize,fd=1
    flowop fsync name=fsyncfile3,fd=1
    flowop closefile name=closefile3,fd=1

    flowop openfile name=openfile4,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile4,fd=1,iosize=$iosize
    flowop closefile name=closefile4,fd=1

    flowop finishoncount name=finish,value=$count
  }
}

run
