// Package cluster runs a real Kubernetes control plane and a real Prometheus
// on 127.0.0.1, for the sandbox and for every test that talks to Kubernetes.
//
// It owns the processes, their ports, certificates, kubeconfigs and the one
// folder with all files. Nodes are KWOK's: nothing runs on them, but they
// and their pods go through the states that real ones go through. Only nodes
// with the annotation kwok.x-k8s.io/node=fake are managed.
//
// It never creates a node, a workload or anything else of a story, and it
// leaves nothing behind: no process, even when the sandbox is killed, and no
// file unless asked to keep them.
package cluster
