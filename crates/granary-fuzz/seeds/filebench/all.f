set $n=cvar(type=cvar-gamma,parameters=mean:4096;gamma:1.5,min=1k)
set $m=5
define randvar name=$r,type=uniform,min=1,max=9,mean=4
define fileset name=a,path=/t,entries=$m,dirwidth=20,size=4k,prealloc=80,leafdirs=2
define file name=b,path=/t,size=1m
define flowop name=both,$x { flowop openfile name=o,filesetname=a,fd=1
 flowop closefile name=c,fd=1 }
define process name=p,instances=2 {
  thread name=t,instances=$m,memsize=1m {
    flowop write name=w,filename=b,iosize=$r,random,dsync
    flowop both name=q,iters=3
    flowop opslimit name=l,target=w
  }
}
run 1
