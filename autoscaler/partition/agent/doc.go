// Package agent changes the MIG layout of the cards of the node that it runs on.
//
// It takes its orders from the node's annotation gpuscale.io/repartition, where
// the autoscaler has recorded an operation for it, and works on one card at a
// time: idle instances go, new ones are made at exact places, busy ones stay.
// Each step stands in the annotation gpuscale.io/mig-agent before it is done, and
// the next step is always found by looking at the card, so that it may be killed
// anywhere: what it began it finishes, or takes back. It has the exporter let go
// of the card first and the device plugin look again afterwards, and reports the
// layout it sees. It never decides what a card should look like, and writes to no
// other node.
package agent
