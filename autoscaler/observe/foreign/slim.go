package foreign

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // the name of a group, as JobSet and LeaderWorkerSet make it
	"encoding/hex"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxAnnotation is the length in bytes of the longest annotation of a template that is kept.
const maxAnnotation = 1024

// slim keeps the fields of a template that decide where its pods go and what they request.
func slim(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: short(t.Annotations, "")},
		Spec:       SlimSpec(&t.Spec, func(*corev1.Volume) bool { return false }),
	}
}

// SlimSpec keeps the fields of a pod that decide where it goes, what it requests and how it ends. The given lists are not
// written to: they may be shared with other pods.
func SlimSpec(s *corev1.PodSpec, local func(*corev1.Volume) bool) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints, SchedulerName: s.SchedulerName, SchedulingGates: s.SchedulingGates,
		PriorityClassName: s.PriorityClassName, Priority: s.Priority, RuntimeClassName: s.RuntimeClassName, Overhead: s.Overhead,
		ActiveDeadlineSeconds: s.ActiveDeadlineSeconds, // a scope of ResourceQuotas
		Resources:             s.Resources, ResourceClaims: s.ResourceClaims, SchedulingGroup: s.SchedulingGroup,
		TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		InitContainers:                slimContainers(s.InitContainers, s.HostNetwork), Containers: slimContainers(s.Containers, s.HostNetwork),
		Volumes: SlimVolumes(s.Volumes, local),
	}
}

// short returns the annotations with a prefix that are not too long, nil for none.
func short(all map[string]string, prefix string) map[string]string {
	var out map[string]string
	for key, value := range all {
		if strings.HasPrefix(key, prefix) && len(value) <= maxAnnotation {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// slimContainers keeps the fields of containers that decide how much they request, and when, and
// their host ports; nil for none. The given containers are not written to.
func slimContainers(all []corev1.Container, onHost bool) []corev1.Container {
	var out []corev1.Container
	for i := range all {
		out = append(out, corev1.Container{Name: all[i].Name, Resources: all[i].Resources, RestartPolicy: all[i].RestartPolicy, Ports: slimPorts(all[i].Ports, onHost)})
	}
	return out
}

// slimPorts keeps host ports. With hostNetwork every container port is a host port; the API server writes that into
// pods, not into templates.
func slimPorts(all []corev1.ContainerPort, onHost bool) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range all {
		if onHost {
			p.HostPort = cmp.Or(p.HostPort, p.ContainerPort)
		}
		if p.HostPort > 0 {
			out = append(out, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
		}
	}
	return out
}

// SlimVolumes keeps volumes with claims, with the claim's name only, and local volumes as empty directories.
func SlimVolumes(all []corev1.Volume, local func(*corev1.Volume) bool) []corev1.Volume {
	var out []corev1.Volume
	for i := range all {
		from, v := &all[i], corev1.VolumeSource{}
		if claim := from.PersistentVolumeClaim; claim != nil {
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.ClaimName}
		}
		if from.Ephemeral != nil {
			v.Ephemeral = &corev1.EphemeralVolumeSource{}
		}
		if local(from) {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		if v != (corev1.VolumeSource{}) {
			out = append(out, corev1.Volume{Name: unique.Make(from.Name).Value(), VolumeSource: v})
		}
	}
	return out
}

// Annotations that give each Job of a JobSet, or each group of a LeaderWorkerSet, a topology domain to itself. Their
// value is a node label, and each value of that label is a domain. Read from jobset 08dfbfd
// (pkg/webhooks/pod_webhook.go) and lws 060ab4d (the same file).
const (
	jobSetExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetLabelled  = "alpha.jobset.sigs.k8s.io/node-selector" // users label the nodes for each Job
	jobSetJobKey    = "jobset.sigs.k8s.io/job-key"
	lwsExclusive    = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// maxPlaces bounds the Jobs of a JobSet that have topology domains of their own: each has its own template.
const maxPlaces = 256

// jobSetPlace returns the node label whose values are the topology domains of a replicated job's Jobs, empty for none.
// The replicated job's own goes before its JobSet's.
func jobSetPlace(set, job map[string]string) string {
	for _, of := range []map[string]string{job, set} {
		if key := of[jobSetExclusive]; key != "" {
			if _, labelled := of[jobSetLabelled]; labelled {
				return ""
			}
			return key
		}
	}
	return ""
}

// Exclusive returns a template as the webhooks of JobSet and LeaderWorkerSet change the pods of one group:
// all of them on nodes with one value of a label, and no pods of another group there. The group is named
// by a label of its pods: a hash of the namespace and a name.
func Exclusive(t corev1.PodTemplateSpec, nodeLabel, podLabel, namespace, name string) corev1.PodTemplateSpec {
	sum := sha1.Sum([]byte(namespace + "/" + name)) //nolint:gosec // as above
	value := hex.EncodeToString(sum[:])
	term := func(requirements ...metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchExpressions: requirements}, TopologyKey: nodeLabel, NamespaceSelector: &metav1.LabelSelector{},
		}
	}
	is := func(o metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: podLabel, Operator: o, Values: values}
	}
	near := term(is(metav1.LabelSelectorOpIn, value))
	apart := term(is(metav1.LabelSelectorOpExists), is(metav1.LabelSelectorOpNotIn, value))
	if podLabel != jobSetJobKey { // LeaderWorkerSet's terms are about its namespace
		near.NamespaceSelector, apart.NamespaceSelector = nil, nil
	}
	t.Labels = with(map[string]string{podLabel: value}, t.Labels)
	affinity := cmp.Or(t.Spec.Affinity, &corev1.Affinity{}).DeepCopy()
	affinity.PodAffinity = cmp.Or(affinity.PodAffinity, &corev1.PodAffinity{})
	affinity.PodAntiAffinity = cmp.Or(affinity.PodAntiAffinity, &corev1.PodAntiAffinity{})
	required := &affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, near)
	required = &affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, apart)
	t.Spec.Affinity = affinity
	return t
}
