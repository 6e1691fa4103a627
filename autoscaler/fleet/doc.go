// Package fleet turns rounds of the loop into the series that boards, alerts and the
// capacity report read: what state every card is in, where GPU time went, who may
// have how much, what waits, how long pods and nodes took, what failed. What nobody
// knows has no series.
//
// Only the leader's has series, so that sums over replicas are right. Their number
// is bounded, whatever the cluster: by rows of the ledger, by shapes, tenants and
// HPAs; what is beyond is added up under "(other)" where that makes sense, and left
// out where it does not. The package decides nothing, writes nothing, and keeps
// nothing over a restart: counters then begin anew, which Prometheus' rates see.
package fleet
