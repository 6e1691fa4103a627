// Package gangs says which pods are of use only together, and which pods are still
// to come because their owner has not made them yet: the members of a gang that its
// scheduler holds back, of a job whose queue has admitted it, of a set whose workers
// wait for their leader, the replicas an HPA wants and a quota keeps from being
// made. Nothing is counted twice: a pod that exists fulfils the place it was made
// for.
//
// It is a pure function of pods and objects; it reads nothing itself.
package gangs
