// Package foreign reads the objects of other projects' APIs that define demand for GPUs before pods
// exist, and quotas: Volcano, scheduler-plugins, Kubernetes' own PodGroups, Kueue, JobSet,
// LeaderWorkerSet, KAI; and DRA's ResourceSlices. It keeps only the fields that are read, so that ten thousand objects stay
// small. An API that the cluster does not serve is absent; one that is installed later is watched
// without a restart.
//
// The package links none of those projects: it reads their fields by name, in every version listed
// in kinds. It never writes, makes no call during a reconcile, and decides nothing.
package foreign
