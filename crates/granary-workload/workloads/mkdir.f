# mkdir: make directories until all exist.
#
# ByteFS paper, Table 5:        1M directories, 12 threads.
# Authors' `baseline` branch:   dirwidth 100, nothing preallocated, memsize 1m, the loop, no other end.

set $dir=/data
set $ndirs=1000000
set $meandirwidth=100
set $nthreads=12

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=0,leafdirs=$ndirs,dirwidth=$meandirwidth,reuse=true

define process name=dirmake,instances=1
{
  thread name=dirmaker,memsize=1m,instances=$nthreads
  {
    flowop makedir name=mkdir1,filesetname=bigfileset
  }
}

run
