// Package agent changes the MIG layout of the GPUs of the node that it runs on.
//
// Its input is the node's annotation gpuscale.io/repartition, where the autoscaler records an
// operation. It works on one GPU at a time: it destroys idle instances, creates new ones at exact
// placements, and leaves busy ones. Each step is recorded in the annotation gpuscale.io/mig-agent
// before it is done, and the next step always follows from the GPU's state, so the agent may be
// killed at any point: after a restart it finishes or undoes the operation. Before a change the
// exporter releases the GPU; afterwards the device plugin is restarted. The agent reports the
// layout that it reads. It never decides what a layout should be, and writes to no other node.
package agent
