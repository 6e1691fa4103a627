// Package foreign reads the objects of other people's APIs that say who wants GPUs
// before there are pods, and how much they may have: Volcano, scheduler-plugins,
// Kubernetes' own PodGroups, Kueue, JobSet, LeaderWorkerSet, KAI. It keeps of each
// object what is asked of it and drops the rest, so that ten thousand of them stay
// small. An API that a cluster does not have is absent, and one that is installed
// later appears without a restart.
//
// It links none of those projects: it reads their fields by name, in every version
// listed in Kinds. It never writes, never asks during a round, and decides nothing.
package foreign
