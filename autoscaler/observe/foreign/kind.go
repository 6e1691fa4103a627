package foreign

// Kind is one kind of object that is read.
type Kind string

// The kinds.
const (
	VolcanoPodGroup   Kind = "podgroups.scheduling.volcano.sh"
	PluginsPodGroup   Kind = "podgroups.scheduling.x-k8s.io"
	BuiltInPodGroup   Kind = "podgroups.scheduling.k8s.io"
	KAIPodGroup       Kind = "podgroups.scheduling.run.ai"
	KueueWorkload     Kind = "workloads.kueue.x-k8s.io"
	VolcanoJob        Kind = "jobs.batch.volcano.sh"
	JobSet            Kind = "jobsets.jobset.x-k8s.io"
	LeaderWorkerSet   Kind = "leaderworkersets.leaderworkerset.x-k8s.io"
	PyTorchJob        Kind = "pytorchjobs.kubeflow.org"
	TFJob             Kind = "tfjobs.kubeflow.org"
	MPIJob            Kind = "mpijobs.kubeflow.org"
	XGBoostJob        Kind = "xgboostjobs.kubeflow.org"
	PaddleJob         Kind = "paddlejobs.kubeflow.org"
	JAXJob            Kind = "jaxjobs.kubeflow.org"
	Deployment        Kind = "deployments.apps"
	StatefulSet       Kind = "statefulsets.apps"
	KueueClusterQueue Kind = "clusterqueues.kueue.x-k8s.io"
	KueueCohort       Kind = "cohorts.kueue.x-k8s.io"
	KueueLocalQueue   Kind = "localqueues.kueue.x-k8s.io"
	KueueFlavor       Kind = "resourceflavors.kueue.x-k8s.io"
	VolcanoQueue      Kind = "queues.scheduling.volcano.sh"
	KAIQueue          Kind = "queues.scheduling.run.ai"

	ProvisioningRequest Kind = "provisioningrequests.autoscaling.x-k8s.io"
	PodTemplate         Kind = "podtemplates"
)

// kind is how objects of a Kind are found and read.
type kind struct {
	group, resource string
	versions        []string // that are supported, the preferred one first
	parse           func(fields, *Object)
}

const kubeflow = "kubeflow.org"

// kinds are all supported kinds.
var kinds = map[Kind]kind{
	VolcanoPodGroup: {"scheduling.volcano.sh", "podgroups", []string{"v1beta1"}, parsePodGroup},
	PluginsPodGroup: {"scheduling.x-k8s.io", "podgroups", []string{"v1alpha1"}, parsePodGroup},
	BuiltInPodGroup: {"scheduling.k8s.io", "podgroups", []string{"v1", "v1beta1", "v1alpha3", "v1alpha2"}, parseBuiltInPodGroup},
	KAIPodGroup:     {"scheduling.run.ai", "podgroups", []string{"v2alpha2"}, parsePodGroup},
	KueueWorkload:   {"kueue.x-k8s.io", "workloads", []string{"v1beta2", "v1beta1"}, parseKueueWorkload},
	VolcanoJob:      {"batch.volcano.sh", "jobs", []string{"v1alpha1"}, parseVolcanoJob},
	JobSet:          {"jobset.x-k8s.io", "jobsets", []string{"v1", "v1alpha2"}, parseJobSet},
	LeaderWorkerSet: {"leaderworkerset.x-k8s.io", "leaderworkersets", []string{"v1"}, parseLeaderWorkerSet},
	// Kubeflow's Training Operator. The TrainJobs of its Trainer are JobSets.
	PyTorchJob: {kubeflow, "pytorchjobs", []string{"v1"}, trainingJob("pytorchReplicaSpecs")},
	TFJob:      {kubeflow, "tfjobs", []string{"v1"}, trainingJob("tfReplicaSpecs")},
	MPIJob:     {kubeflow, "mpijobs", []string{"v2beta1", "v1"}, trainingJob("mpiReplicaSpecs")},
	XGBoostJob: {kubeflow, "xgboostjobs", []string{"v1"}, trainingJob("xgbReplicaSpecs")},
	PaddleJob:  {kubeflow, "paddlejobs", []string{"v1"}, trainingJob("paddleReplicaSpecs")},
	JAXJob:     {kubeflow, "jaxjobs", []string{"v1"}, trainingJob("jaxReplicaSpecs")},

	Deployment:  {"apps", "deployments", []string{"v1"}, parseScaled},
	StatefulSet: {"apps", "statefulsets", []string{"v1"}, parseScaled},

	KueueClusterQueue: {"kueue.x-k8s.io", "clusterqueues", []string{"v1beta2", "v1beta1"}, parseKueueQueue},
	KueueCohort:       {"kueue.x-k8s.io", "cohorts", []string{"v1beta2", "v1beta1", "v1alpha1"}, parseKueueQueue},
	KueueLocalQueue:   {"kueue.x-k8s.io", "localqueues", []string{"v1beta2", "v1beta1"}, parseLocalQueue},
	KueueFlavor:       {"kueue.x-k8s.io", "resourceflavors", []string{"v1beta2", "v1beta1"}, parseFlavor},
	VolcanoQueue:      {"scheduling.volcano.sh", "queues", []string{"v1beta1"}, parseVolcanoQueue},
	KAIQueue:          {"scheduling.run.ai", "queues", []string{"v2"}, parseKAIQueue},

	ProvisioningRequest: {"autoscaling.x-k8s.io", "provisioningrequests", []string{"v1", "v1beta1"}, parseProvisioningRequest},
	PodTemplate:         {"", "podtemplates", []string{"v1"}, parsePodTemplate},
}
