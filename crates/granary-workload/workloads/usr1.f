# usr1: a researcher's desktop: programs commit to small databases, documents are saved, a browser fills its
#     cache.
#
# A generator, not the trace: FIU's trace `usr1` is not ours to give away. With the trace itself: granary run
#     FILE.fiu.
#
# FIU ("Non-blocking Writes to Files", FAST'15, description of the traces): usr1 is "Researcher 1 desktop"; one
#     day, one trace for each core; reads, writes, opens, closes, fsyncs and fdatasyncs of files.
# SPFS (FAST'23, slides "Experiments with FIU Trace"): a transactional trace, replayed on 16 GB of memory, of
#     NOVA alone too: so what it touches is less than 16 GB.
# SQLite, "Atomic Commit": the rollback journal is written and flushed, then the database.
# [choice] No source gives counts, sizes or shares of operations. Ours: 200 databases of 10 MiB, 40,000
#     documents of 64 KiB and 60,000 entries of the cache of 32 KiB (6 GiB); 4 cores; pages of 4 KiB, three to the
#     journal and two to the database of a commit; in each round one document is saved (with fsync) and removed, one
#     entry of the cache is made and removed, three documents are read. 72 % of the written bytes are fsynced.

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
define fileset name=documents,path=$dir,size=$documentsize,entries=$ndocuments,dirwidth=$meandirwidth,prealloc=80,reuse=true
define fileset name=cache,path=$dir,size=$entrysize,entries=$nentries,dirwidth=$meandirwidth,prealloc=80,reuse=true

define process name=desktop,instances=1
{
  thread name=desktopthread,memsize=1m,instances=$nthreads
  {
    flowop write name=journal-write,filesetname=journals,fd=1,random,iosize=$pagesize,iters=3
    flowop fsync name=journal-fsync,fd=1
    flowop write name=page-write,filesetname=databases,fd=2,random,iosize=$pagesize,iters=2
    flowop fsync name=page-fsync,fd=2

    flowop openfile name=document-open1,filesetname=documents,fd=3
    flowop readwholefile name=document-read1,fd=3,iosize=1m
    flowop closefile name=document-close1,fd=3
    flowop openfile name=document-open2,filesetname=documents,fd=3
    flowop readwholefile name=document-read2,fd=3,iosize=1m
    flowop closefile name=document-close2,fd=3
    flowop openfile name=document-open3,filesetname=documents,fd=3
    flowop readwholefile name=document-read3,fd=3,iosize=1m
    flowop closefile name=document-close3,fd=3

    flowop deletefile name=document-delete,filesetname=documents
    flowop createfile name=document-create,filesetname=documents,fd=3
    flowop writewholefile name=document-write,filesetname=documents,fd=3,iosize=64k
    flowop fsync name=document-fsync,fd=3
    flowop closefile name=document-close4,fd=3

    flowop deletefile name=cache-delete,filesetname=cache
    flowop createfile name=cache-create,filesetname=cache,fd=3
    flowop writewholefile name=cache-write,filesetname=cache,fd=3,iosize=64k
    flowop closefile name=cache-close,fd=3

    flowop finishoncount name=finish,value=$count
  }
}

run
