// Package story is the text a sandbox plays: the fleet, the workloads, the
// traffic, the faults, and what must be true in which order. It owns the
// language (parsing with file and line in every error) and the arithmetic of
// expectations. It plays nothing itself and imports no cluster.
//
// A story is a list of lines; # begins a comment. The first word is the verb,
// words of the form key=value follow, values with spaces stand in quotes:
//
//	story   "the loop in five minutes"
//	pool    h100-mig product=NVIDIA-H100-80GB-HBM3 cards=2 min=2 max=4 price=9.84 boot=15s layout="3g.40gb*2"
//	node    h100-mig-a pool=h100-mig layout="3g.40gb*2 | 1g.10gb*7"
//	replay  nodes=8
//	run     search/embed replicas=3 ask=nvidia.com/mig-1g.10gb node=h100-mig-a busy=0.3
//	serve   chat/vllm model=chat-13b replicas=2 ask=nvidia.com/mig-3g.40gb load=3s
//	hpa     chat/vllm min=2 max=10 metrics=queue_depth:8 down-after=30s
//	traffic chat/vllm speed=20 seed=1 base=1.6 peak=8.5 length=50m
//	fault   at=40s wedge node=h100-mig-b
//	expect  "the queue grows" queue > 16 within 90s
//	expect  "a card first" repartitions >= 1 and scale_ups == 0 within 60s
//	always  wrong_scale_downs == 0
//
// A pool's layout is that of the cards of a new node, a node's that of its own
// cards: instances by count, cards separated by |; one card's layout stands
// for all. Times are wall time from the start of the traffic.
package story
