# oltp of the ByteFS paper's Table 5 (granary-workload/workloads/oltp.f), small enough to fail in the middle of it a
# thousand times: the same processes, flowops and synchronous writes; semaphores, files and threads a hundredth.

set $dir=/data
set $count=250

set mode quit firstdone

define fileset name=datafiles,path=$dir,size=64k,entries=8,dirwidth=8,prealloc=100,reuse=true
define fileset name=logfile,path=$dir,size=128k,entries=1,dirwidth=8,prealloc=100,reuse=true

define process name=lgwr,instances=1
{
  thread name=lgwr,memsize=1m
  {
    flowop aiowrite name=lg-write,filesetname=logfile,iosize=16k,random,dsync
    flowop aiowait name=lg-aiowait
    flowop semblock name=lg-block,value=32,highwater=40
  }
}

define process name=dbwr,instances=2
{
  thread name=dbwr,memsize=1m
  {
    flowop aiowrite name=dbwrite-a,filesetname=datafiles,iosize=2k,random,iters=8,opennext,dsync
    flowop hog name=dbwr-hog,value=1000
    flowop semblock name=dbwr-block,value=10,highwater=20
    flowop aiowait name=dbwr-aiowait
  }
}

define process name=shadow,instances=4
{
  thread name=shadow,memsize=1m
  {
    flowop read name=shadowread,filesetname=datafiles,iosize=2k,random,opennext
    flowop hog name=shadowhog,value=20000
    flowop sempost name=shadow-post-lg,value=1,target=lg-block,blocking
    flowop sempost name=shadow-post-dbwr,value=1,target=dbwr-block,blocking
    flowop finishoncount name=finish,value=$count
  }
}

run
