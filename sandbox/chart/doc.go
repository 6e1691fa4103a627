// Package chart contains the tests of the Helm chart, and of gpuscale-report doctor as users run it. They run
// on one control plane with a real aggregation layer and a real Prometheus. They test that the API server
// accepts every combination of values, that Pod Security admits the pods, and that the chart works when Helm
// installs it: adapter and autoscaler run as their Deployments say, with only the permissions that the chart
// grants.
//
// The installation is healthy until a test breaks it, in the ways in which users do: a missing object, a
// misspelt word, a dead program. Then doctor must report that fault and no other. The commands that it prints
// are run unchanged by a real kubectl.
//
// The nodes are KWOK's. The exporters run the real exporter's engine in this process, over a replayed
// recording. A fake of the kubelet says which pods the GPUs are allocated to; see fleet.
package chart
