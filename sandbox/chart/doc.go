// Package chart holds the tests of the Helm chart, and of gpuscale-report doctor as
// users run it, on one control plane with a real aggregation layer and a real
// Prometheus: the API server's answer to every combination of values, the pods that Pod
// Security admits, and the chart installed by Helm itself, with adapter and autoscaler
// running as their Deployments say and with no more rights than it gives.
//
// Nothing is wrong in this world until a test breaks it, in the way in which users
// do: an object that is missing, a word that is misspelt, a program that has died.
// Then doctor has to name that fault and no other, and where it prints commands they
// are typed in as they stand, by a real kubectl.
//
// The nodes are KWOK's. The exporters are the real ones' engine in this process, over
// a replayed recording, and the pods that GPUs are allocated to come from a fake of the kubelet:
// see fleet.
package chart
