# usr2: another researcher's desktop: twice as many commits to small databases, no documents saved, a browser
#     fills its cache.
#
# A generator, not the trace: FIU's trace `usr2` is not ours to give away. With the trace itself: granary run
#     FILE.fiu.
#
# FIU ("Non-blocking Writes to Files", FAST'15, description of the traces): usr2 is "Researcher 2 desktop"; one
#     day, one trace for each core; reads, writes, opens, closes, fsyncs and fdatasyncs of files.
# SPFS (FAST'23, slides "Experiments with FIU Trace"): a transactional trace, replayed on 16 GB of memory, of
#     NOVA alone too: so what it touches is less than 16 GB.
# SQLite, "Atomic Commit": the rollback journal is written and flushed, then the database.
# [choice] No source gives counts, sizes or shares of operations, nor how the two desktops differ. Ours: as
#     usr1, but a round commits twice, reads one document, saves none and makes two entries of the cache, each of
#     which replaces one. 38 % of the written bytes are fsynced.

set $dir=/data
set $ndatabases=200
set $databasesize=10m
set $ndocuments=40000
set $documentsize=cvar(type=cvar-gamma,parameters=mean:65536;gamma:1.5)
set $nentries=60000
set $entrysize=cvar(type=cvar-gamma,parameters=mean:32768;gamma:1.5)
set $meandirwidth=100
set $nthreads=4
set $pagesize=4k
set $count=500000

set mode quit alldone

define fileset name=databases,path=$dir,size=$databasesize,entries=$ndatabases,dirwidth=$meandirwidth,prealloc=100,reuse=true
define fileset name=journals,path=$dir,size=64k,entries=$ndatabases,dirwidth=$meandirwidth,prealloc=100,reuse=true
define fileset name=documents,path=$dir,size=$documentsize,entries=$ndocuments,dirwidth=$meandirwidth,prealloc=100,reuse=true
define fileset name=cache,path=$dir,size=$entrysize,entries=$nentries,dirwidth=$meandirwidth,prealloc=80,reuse=true

define process name=desktop,instances=1
{
  thread name=desktopthread,memsize=1m,instances=$nthreads
  {
    flowop write name=journal-write1,filesetname=journals,fd=1,random,iosize=$pagesize,iters=3
    flowop fsync name=journal-fsync1,fd=1
    flowop write name=page-write1,filesetname=databases,fd=2,random,iosize=$pagesize,iters=2
    flowop fsync name=page-fsync1,fd=2

    flowop openfile name=document-open,filesetname=documents,fd=3
    flowop readwholefile name=document-read,fd=3,iosize=1m
    flowop closefile name=document-close,fd=3

    flowop write name=journal-write2,filesetname=journals,fd=1,random,iosize=$pagesize,iters=3
    flowop fsync name=journal-fsync2,fd=1
    flowop write name=page-write2,filesetname=databases,fd=2,random,iosize=$pagesize,iters=2
    flowop fsync name=page-fsync2,fd=2

    flowop deletefile name=cache-delete1,filesetname=cache
    flowop createfile name=cache-create1,filesetname=cache,fd=3
    flowop writewholefile name=cache-write1,filesetname=cache,fd=3,iosize=64k
    flowop closefile name=cache-close1,fd=3
    flowop deletefile name=cache-delete2,filesetname=cache
    flowop createfile name=cache-create2,filesetname=cache,fd=3
    flowop writewholefile name=cache-write2,filesetname=cache,fd=3,iosize=64k
    flowop closefile name=cache-close2,fd=3

    flowop finishoncount name=finish,value=$count
  }
}

run
