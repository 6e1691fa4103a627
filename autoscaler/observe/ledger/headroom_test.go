package ledger

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestRefuse: of the pods still to be created the API server creates those within every
// ResourceQuota of their namespace; of a gang all or none.
func TestRefuse(t *testing.T) {
	const device = `containers: [{name: c, resources: {requests: {cpu: "4", memory: 8Gi, nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}}]`
	const quota = "kind: ResourceQuota\nmetadata: {namespace: ml, name: q}\n"
	type pod struct {
		spec, gang string
		least      int
	}
	one, gang := pod{spec: device}, pod{device, "ml/g", 2}
	for name, c := range map[string]struct {
		quotas string
		pods   []pod
		want   string // the resource there is no more of, "-" for a pod that is made
	}{
		"capacity for two of three": {quota + `spec: {hard: {requests.nvidia.com/gpu: 4}}
status: {hard: {requests.nvidia.com/gpu: 4}, used: {requests.nvidia.com/gpu: 2}}`, []pod{one, one, one}, "- - requests.nvidia.com/gpu"},
		"another resource is what lacks": {quota + `spec: {hard: {requests.nvidia.com/gpu: 4, cpu: 6}}
status: {hard: {requests.nvidia.com/gpu: 4, cpu: 6}, used: {requests.nvidia.com/gpu: 0, cpu: 0}}`, []pod{one, one}, "- cpu"},
		"a number of pods": {quota + `spec: {hard: {pods: 1}}
status: {hard: {pods: 1}, used: {pods: 0}}`, []pod{one, one}, "- pods"},
		"nothing has been counted yet": {quota + `spec: {hard: {requests.nvidia.com/gpu: 4}}`, []pod{one}, "requests.nvidia.com/gpu"},
		"it bounds what no pod requests": {quota + `spec: {hard: {requests.amd.com/gpu: 0, count/secrets: 1}}
status: {hard: {requests.amd.com/gpu: 0, count/secrets: 1}, used: {requests.amd.com/gpu: 0, count/secrets: 3}}`, []pod{one}, "-"},
		"a gang with too few pods within the quota takes no capacity": {quota + `spec: {hard: {requests.nvidia.com/gpu: 1}}
status: {hard: {requests.nvidia.com/gpu: 1}, used: {requests.nvidia.com/gpu: 0}}`, []pod{gang, gang, one}, "requests.nvidia.com/gpu requests.nvidia.com/gpu -"},
		"a gang of which enough would be made": {quota + `spec: {hard: {requests.nvidia.com/gpu: 2}}
status: {hard: {requests.nvidia.com/gpu: 2}, used: {requests.nvidia.com/gpu: 0}}`, []pod{gang, gang, gang}, "- - requests.nvidia.com/gpu"},
		"of two quotas the one that has less": {quota + `spec: {hard: {requests.nvidia.com/gpu: 9}}
status: {hard: {requests.nvidia.com/gpu: 9}, used: {requests.nvidia.com/gpu: 0}}
---
kind: ResourceQuota
metadata: {namespace: ml, name: small}
spec: {hard: {requests.memory: 8Gi}}
status: {hard: {requests.memory: 8Gi}, used: {requests.memory: 0}}`, []pod{one, one}, "- requests.memory"},
		"one of another namespace": {`kind: ResourceQuota
metadata: {namespace: other, name: q}
spec: {hard: {pods: 0}}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one}, "-"},
		"a required request is missing": {quota + `spec: {hard: {limits.cpu: 99}}
status: {hard: {limits.cpu: 99}, used: {limits.cpu: 0}}`, []pod{one}, "limits.cpu"},
		"scopes: a class": {quota + `spec: {hard: {pods: 0}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one, {spec: "priorityClassName: low\n" + device}}, "- pods"},
		"scopes: best effort is of CPU and memory": {quota + `spec: {hard: {pods: 0}, scopes: [BestEffort]}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one, {spec: `containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]`}}, "- pods"},
		"scopes: a deadline": {quota + `spec: {hard: {pods: 0}, scopes: [Terminating, NotBestEffort]}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one, {spec: "activeDeadlineSeconds: 60\n" + device}}, "- pods"},
	} {
		t.Run(name, func(t *testing.T) {
			l := read(t, c.quotas)
			tenants := len(l.Tenants)
			var pods []Made
			for _, p := range c.pods {
				var spec corev1.PodSpec
				must(t, yaml.UnmarshalStrict([]byte(p.spec), &spec))
				pods = append(pods, Made{Namespace: "ml", Spec: &spec, Gang: p.gang, Least: p.least})
			}
			var got []string
			for _, tenant := range l.Refuse(pods) {
				_, resource, _ := strings.Cut(tenant, "/no-more/")
				if tenant == "" {
					resource = "-"
				} else if !l.names[tenant] {
					t.Errorf("%s is no tenant", tenant)
				}
				got = append(got, resource)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			buildable(t, l)
			for _, added := range l.Tenants[tenants:] {
				if !added.Limit.Zero() || !added.Guarantee.Zero() {
					t.Errorf("%+v has free capacity", added)
				}
			}
		})
	}
}
