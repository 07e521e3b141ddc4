# moodle: web and database server of a department's course system. Requests read pages and files, and commit
#     transactions.
#
# A generator, not the trace: FIU's trace `moodle` is not ours to give away. With the trace itself: granary run
#     FILE.fiu.
#
# FIU ("Non-blocking Writes to Files", FAST'15, description of the traces): moodle is "Web & DB server for
#     department CMS"; one day, one trace for each core; reads, writes, opens, closes, fsyncs and fdatasyncs of
#     files.
# SPFS (FAST'23, slides "Experiments with FIU Trace"): a transactional trace, replayed on 16 GB of memory, of
#     NOVA alone too: so what it touches is less than 16 GB.
# MySQL manual: a page has 16 KB (innodb_page_size), a commit writes and flushes the log
#     (innodb_flush_log_at_trx_commit = 1), in blocks of 512 B.
# [choice] No source gives counts, sizes or shares of operations. Ours: 400 tables of 16 MiB and 60,000 files of
#     64 KiB (10 GiB); 4 cores; a request reads 6 pages and 2 files, commits 2 transactions, writes 2 pages back and
#     a line of 200 B to the web server's log. 99 % of the written bytes are fsynced, which is what "transactional"
#     means here.

set $dir=/data
set $ntables=400
set $tablesize=16m
set $nfiles=60000
set $filesize=cvar(type=cvar-gamma,parameters=mean:65536;gamma:1.5)
set $meandirwidth=100
set $nthreads=4
set $redosize=64m
set $pagesize=16k
set $logblock=512
set $lineofweblog=200
set $count=500000

set mode quit alldone

define fileset name=tables,path=$dir,size=$tablesize,entries=$ntables,dirwidth=$meandirwidth,prealloc=100,reuse=true
define fileset name=site,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100,reuse=true
define file name=redo,path=$dir,size=$redosize,prealloc=100,reuse=true
define file name=weblog,path=$dir,size=1m,prealloc=100,reuse=true

define process name=request,instances=1
{
  thread name=requestthread,memsize=1m,instances=$nthreads
  {
    flowop read name=page-read,filesetname=tables,random,iosize=$pagesize,iters=6,opennext

    flowop openfile name=site-open1,filesetname=site,fd=1
    flowop readwholefile name=site-read1,fd=1,iosize=1m
    flowop closefile name=site-close1,fd=1
    flowop openfile name=site-open2,filesetname=site,fd=1
    flowop readwholefile name=site-read2,fd=1,iosize=1m
    flowop closefile name=site-close2,fd=1

    flowop write name=redo-write1,filesetname=redo,fd=2,iosize=$logblock
    flowop fsync name=redo-fsync1,fd=2
    flowop write name=redo-write2,filesetname=redo,fd=2,iosize=$logblock
    flowop fsync name=redo-fsync2,fd=2

    flowop write name=page-write,filesetname=tables,fd=3,random,iosize=$pagesize,iters=2
    flowop fsync name=page-fsync,fd=3

    flowop appendfile name=weblog-append,filesetname=weblog,fd=4,iosize=$lineofweblog

    flowop finishoncount name=finish,value=$count
  }
}

run
