// Package cluster runs a real Kubernetes control plane and a real Prometheus
// on 127.0.0.1, for the sandbox and for every test that talks to Kubernetes.
//
// It owns the processes, their ports, certificates and kubeconfigs, and the one folder with all files. The
// nodes are KWOK's: nothing runs on them, but they and their pods go through the same states as real ones.
// KWOK manages only nodes with the annotation kwok.x-k8s.io/node=fake.
//
// It creates no node, no workload and nothing else of a story. It leaves nothing behind: no process, even if
// the sandbox is killed, and no file unless asked to.
package cluster
