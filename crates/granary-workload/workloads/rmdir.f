# rmdir: remove directories until none is left.
#
# ByteFS paper, Table 5:        1M directories, 12 threads.
# Authors' `baseline` branch:   dirwidth 100, all preallocated, memsize 1m, the loop, no other end.

set $dir=/data
set $ndirs=1000000
set $meandirwidth=100
set $nthreads=12

set mode quit alldone

define fileset name=bigfileset,path=$dir,size=0,leafdirs=$ndirs,dirwidth=$meandirwidth,prealloc,reuse=true

define process name=remdir,instances=1
{
  thread name=removedirectory,memsize=1m,instances=$nthreads
  {
    flowop removedir name=dirremover,filesetname=bigfileset
  }
}

run
