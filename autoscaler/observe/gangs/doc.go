// Package gangs determines which pods are useful only together, and which pods are still to be
// created by their owners: members of a gang that its scheduler has not created yet, pods of a job
// that its queue has admitted, workers that wait for their leader, replicas that an HPA requests
// and a quota refuses. Nothing counts twice: an existing pod takes the place it was created for.
//
// The package is a pure function of pods and objects; it reads nothing itself.
package gangs
