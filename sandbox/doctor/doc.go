// Package doctor holds the tests of gpuscale-report doctor as people run it: the
// built program, beside a real control plane with a real aggregation layer, a real
// Prometheus, the chart installed with Helm, and adapter and autoscaler running as
// their Deployments say.
//
// Nothing is wrong in this world until a test breaks it, in the way in which people
// do: an object that is missing, a word that is misspelt, a program that has died.
// Then the program has to name that fault and no other, and where it prints commands
// they are typed in as they stand, by a real kubectl.
//
// The nodes are KWOK's. The exporters are the real ones' engine in this process,
// over a replayed recording, and who holds which card they ask of a double of the
// kubelet: see fleet.
package doctor
