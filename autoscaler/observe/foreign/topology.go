package foreign

import (
	"crypto/sha1" //nolint:gosec // the name of a group, as JobSet and LeaderWorkerSet make it
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which each of a JobSet's Jobs, and each group of a LeaderWorkerSet, has a place to
// itself. Their value is a label of nodes, whose values are the places. Read from jobset 08dfbfd
// (pkg/webhooks/pod_webhook.go) and lws 060ab4d (the same file).
const (
	jobSetExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetLabelled  = "alpha.jobset.sigs.k8s.io/node-selector" // the places are labels of nodes for each Job
	jobSetJobKey    = "jobset.sigs.k8s.io/job-key"
	lwsExclusive    = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// maxPlaces bounds the Jobs of one replicated job that have places of their own.
const maxPlaces = 256

// jobSetPlace returns the label of nodes whose values are the places of a replicated job's Jobs, empty
// for none: its own, else its JobSet's.
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
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[podLabel] = value
	t.Labels = labels
	affinity := &corev1.Affinity{}
	if t.Spec.Affinity != nil {
		affinity = t.Spec.Affinity.DeepCopy()
	}
	if affinity.PodAffinity == nil {
		affinity.PodAffinity = &corev1.PodAffinity{}
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	required := &affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(slices.Clip(*required), near)
	required = &affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(slices.Clip(*required), apart)
	t.Spec.Affinity = affinity
	return t
}
