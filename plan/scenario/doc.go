// Package scenario is the text language for snapshots and plans: it parses
// them, prints them, and runs a file of them in the simulated world. What it
// prints of a snapshot parses back to an equal one, so a bug report is a test.
// It never decides anything and imports no test library.
//
// # Lines
//
// A file is lines of a verb and its words. A line that begins with a blank
// continues the one above; "#" at the start of a line begins a comment. A line
// about an existing object changes the fields that it names and leaves the
// rest. A word with blanks or any of ()=:,"{ in it is quoted as in Go.
//
// Values: DURATION is Go's (90s, 1h30m). AGO is a duration before now, IN one
// after it: idle=5m is five minutes ago, backoff=5m in five minutes; "@" and
// RFC 3339 is absolute, "never" is the zero time. CPU is cores or "500m";
// MEMORY is in Mi, Gi or Ti. A SHARE is 0 … 1. AMOUNT is whole GPUs (2), compute
// and memory slices (14+16), none or all. KEY is namespace/name. A list is
// (word word …); of one plain word the parentheses may be left out.
//
// # The cluster
//
//	pool NAME                       a group of nodes that can grow and shrink
//	  min=N max=N                   bounds of its size
//	  size=N target=N               nodes that exist, nodes requested; counted from the nodes by default
//	  price=MONEY                   of one node, an hour
//	  priority=N                    before the price
//	  spot | on-demand              may nodes be interrupted; and how often an hour:
//	  interruptions=N
//	  ready-after=DURATION          from the request to a node that takes pods
//	  idle-after=DURATION           an empty node is removed after it
//	  backoff=IN                    the provider fails until then
//	  freeze | thaw
//	  fixed                         no provider: it never grows or shrinks
//	  repartition=no|idle|keep-busy may GPUs be repartitioned: never, while free, around allocated instances
//	  keeps-busy                    busy instances could stay, though repartition=no
//	  mig-idle-after=DURATION       an idle instance may be destroyed after it
//	  mig-duration=DURATION         of a repartition
//	  mig-allowed=(PROFILE …)       that may be created, all by default
//	  labels= taints= others= cpu= memory= gpus= and the words of a GPU: its template
//
//	node NAME                       as its pool's template, or
//	  pool=POOL bare                without the template
//	  gone                          it is removed
//	  ready | unready
//	  cordoned | uncordoned         by anyone
//	  cordoned-by=OPERATION         by us; uncordoned beside it where another actor lifted it
//	  draining=AGO                  since when it is drained, cordoned; with
//	  drain-deadline=IN drain-reason=NodeUnderused|NodeSick
//	  not-draining                  the drain was given up
//	  no-scale-down                 it must not be removed
//	  holds-data                    datasets are cached on it
//	  soft-tainted                  the scheduler is asked to prefer other nodes
//	  leaves-in=IN                  its provider interrupts it then
//	  age=AGO cpu=CPU memory=MEMORY labels=(KEY=VALUE …) taints=(KEY=VALUE:EFFECT …)
//	  allocatable=(REQUEST …)          what the API offers in all; () for nothing
//	  gpus=N                        GPUs 0 … N-1 all alike, with the words of a GPU
//	  op=ID op-gpu=INDEX op-model=MODEL op-target=(PROFILE@START …) op-started=AGO op-deadline=IN
//	  op-phase=pending|succeeded|failed op-message=TEXT    a repartition under way
//
//	gpu NODE/INDEX                  a GPU of a node; with the word template, of a pool
//	  model=H100-80GB vendor=NAME memory-mib=MIB uuid=ID health=unknown|healthy|sick
//	  mig | no-mig
//	  shared                        given in shares only; others= has their number
//	  places=N                      pods that may share it, whatever their size; 0 for no limit
//	  layout=(INSTANCE …)           PROFILE@START with :allocated-to=KEY :idle=AGO :unused=AGO
//	                                :uuid=ID :busy=SHARE~AGE :unplaced (only its number is known)
//	  allocated-to=(KEY …)          of a GPU without MIG
//	  allocation-known | allocation-unknown
//	  gpu-idle=AGO gpu-unused=AGO gpu-busy=SHARE~AGE    of the GPU as a whole
//	  idle=AGO                      all that is free on the GPU, since then
//	  unused=AGO                    all that is allocated on the GPU is unused since then
//	  fails                         its next repartition fails in the simulated world
//
//	quota NAME                      a tenant; without fields guaranteed nothing and unlimited
//	  gone
//	  guarantee=AMOUNT              always available to it
//	  limit=AMOUNT                  the most for it and its children
//	  borrow=AMOUNT                 the most beyond its guarantee
//	  lend=AMOUNT                   the most of its guarantee that others may use while it is idle
//	  parent=NAME
//	  reclaim-idle=DURATION         pods that leave their devices unused for it are evicted
//
//	pod KEY                         requests GPUs, or has them; ns/w-{0..7} declares eight equal ones
//	  gone
//	  node=NODE                     it is bound to; without one the scheduler has marked it unschedulable,
//	  unschedulable | unmarked      unless it is unmarked
//	  pending=AGO age=AGO           since when it is pending, and exists
//	  unmade | made                 its owner creates it once it fits
//	  leaving=IN | staying          terminating, and gone by then; never for unknown
//	  evictable                     it may be evicted, and
//	  evict-from=IN                 from then on without losing work
//	  local-storage                 it has a volume on its node's disk
//	  budgets=(KEY:allowed=N …)     PodDisruptionBudgets it counts towards, and what they allow now
//	  daemonset                     does not keep a node from being empty
//	  requests=(REQUEST …)          gpu*2, amd.gpu, any.gpu, 3g.40gb*2, part:core=500:memory-mib=8192
//	                                or :memory=500 (thousandths, as core), :gpus=N different GPUs
//	  unreadable=TEXT               its demand is unknown, and why
//	  owner=TEXT priority=N cpu=CPU memory=MEMORY
//	  selector=(KEY=VALUE …)
//	  affinity=(KEY:In:A:B KEY:Exists | KEY:Gt:5)          "|" between terms of which one must match
//	  tolerations=(KEY=VALUE:op=Exists:effect=NoSchedule …)
//	  parts-on=(INDEX …)            GPUs of its node on which its parts are, where they are recorded
//	  others=(NAME=N …)             other extended resources: rdma/hca=2; of a node and a pool what they have
//	  host-ports=(TCP/8080 UDP/53/10.0.0.1 …)    ports of its node; of a pool, those that its DaemonSets take
//	  volumes=(KEY:In:A | KEY:In:B & KEY:Exists)  as affinity; "&" between volumes, of each of which one must match
//	  data=(LABEL …)                labels, of value "true", of nodes that have a dataset of it: preferred
//	  unbound=TEXT                  why a volume of it can be used on no node for now
//	  groups=(GROUP …)              groups that rules count it in
//	  spread=(LABEL:group=GROUP:skew=N …)    evenly over the label's values, of which there have to be so many
//	                                (:min-domains=N), of which nodes (:ignore-affinity :honor-taints)
//	  apart=(LABEL:group=GROUP …) near=(LABEL:group=GROUP …)    not beside one of the group; only beside one
//	  tenant=NAME
//	  gang=KEY gang-min=N           of no use before N of the gang run at the same time
//
//	forecast KEY                    the expected demand of a workload
//	  gone
//	  have=N                        replicas that exist
//	  low=N expected=N high=N       replicas needed, between which bounds,
//	  at=IN                         then
//	  error=SHARE                   the back-test's, of the mean
//	  unsure=TEXT                   why there is no forecast
//	  requests= unreadable= owner= priority= cpu= memory= selector= affinity= tolerations= others=
//	  host-ports= volumes= data= unbound= groups= spread= apart= near= tenant= gang= gang-min=
//	                                one more replica, as a pod's
//
// # Time and decisions
//
//	tick DURATION                   time that passes, with what happens in it
//	tick at=TIME                    the time now, and the planner's state:
//	  last-scale-up=(POOL=AGO …) last-scale-down= last-drain= last-replace= (by pool)
//	  last-repartition= sick-since= unknown-since= (by node) free-since= (by node, or node/gpu)
//	  grown=(POOL=N:at=AGO …)       nodes added within the last hour
//	  removed=(POOL=N:at=AGO …)     nodes removed within the last ten minutes
//	  tables=("SPEC" …)             MIG tables that nodes have published: as mig.Spec prints them
//	  failures=(NODE/GPU=N:at=AGO …)    repartitions in a row that failed, and the last of them
//
//	policy                          of the decisions that follow
//	  freeze | thaw
//	  max-actions=N max-evictions=N (0: reclaim nothing)   of one plan
//	  max-nodes=N max-nodes-per-hour=N                     added to one pool, in one plan and in an hour
//	  max-removals=N max-removal-share=SHARE removal-interval=DURATION    of one plan; of a pool in one plan; and between two
//	  max-removals-per-ten-minutes=N   of all pools
//	  max-idle-at-once=SHARE ok-idle=N   more nodes than both became idle within idle-hold=DURATION: remove nothing
//	  scale-down-cooldown=DURATION  after a scale up of the pool
//	  repartition-cooldown=DURATION repartition-timeout=DURATION
//	  max-unready=SHARE ok-unready=N     more unready nodes than both: do nothing
//	  wait-cost=MONEY               of a pending GPU equivalent, an hour
//	  disruption-cost=MONEY         of a repartition
//	  eviction-cost=MONEY           of a GPU equivalent of work that is moved
//	  node-life=DURATION node-overdue=DURATION
//	  soft-taints | no-soft-taints               soft taint empty nodes; off in a scenario unless asked for
//	  reclaim-borrowed | no-reclaim-borrowed     evict pods on borrowed capacity for another's guarantee
//	  scale-up-borrowed | no-scale-up-borrowed   nodes for demand beyond its guarantee
//	  skip-nodes-with-local-storage | drain-local-storage   whether pods with local storage stay
//	  expendable-cutoff=N           pods of a lower priority are expendable
//	  balance | no-balance          sizes of similar pools
//	  max-drains=N (0: drain nothing) drain-timeout=DURATION drain-cooldown=DURATION
//	  headroom=none|low|expected|high headroom-weight=SHARE
//	  sick-after=DURATION (0: replace nothing) replace-interval=DURATION max-sick-share=SHARE
//
//	plan                            what should be done now: actions, and the verdicts on pending pods,
//	                                gangs, forecasts, pools, tenants beyond their guarantee, totals
//	  all                           every verdict
//	  apply                         and starts the actions
//
//	settle                          plan, act and advance, repeatedly: actions and events
//	  for=DURATION every=DURATION   ten minutes, every ten seconds
package scenario
