package foreign

import (
	"strings"
	"testing"
	"time"
)

// TestProvisioningRequest: pods of PodTemplates are demand of a class that is served and may add nodes.
func TestProvisioningRequest(t *testing.T) {
	const spec = `
metadata: {namespace: ml, name: train}
spec:
  provisioningClassName: CLASS
  parameters: {ValidUntilSeconds: "600"}
  podSets:
  - {count: 2, podTemplateRef: {name: worker}}
  - {count: 1, podTemplateRef: {name: leader}}`
	template := func(name string) *Object {
		return Parse(PodTemplate, object(t, `
metadata: {namespace: ml, name: `+name+`}
template: {spec: {containers: [{name: `+name+`, resources: {limits: {nvidia.com/gpu: "8"}}}]}}`))
	}
	of := func(class string) *Object {
		return Parse(ProvisioningRequest, object(t, strings.ReplaceAll(spec, "CLASS", class)))
	}
	all := Objects{
		ProvisioningRequest: {of(AtomicScaleUp), of(CheckCapacity), of("queued.gke.io")}, PodTemplate: {template("worker"), template("leader")},
	}
	got := all.Resolve([]string{AtomicScaleUp})[ProvisioningRequest]
	if len(got) != 1 || got[0].Maker.Inactive || got[0].Request.ValidFor != 10*time.Minute || len(got[0].Maker.Roles) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{"worker", "leader"} {
		if r := got[0].Maker.Roles[i]; r.Count != 2-i || r.Template.Spec.Containers[0].Name != want {
			t.Errorf("role %d: %+v", i, r)
		}
	}
	if r := all[ProvisioningRequest][0].Maker.Roles[0]; len(r.Template.Spec.Containers) != 0 {
		t.Error("the cached object was written to")
	}
	all[PodTemplate] = all[PodTemplate][:1]
	got = all.Resolve([]string{AtomicScaleUp, CheckCapacity})[ProvisioningRequest]
	if len(got) != 2 || got[0].Request.Missing != "leader" || !got[0].Maker.Inactive || !got[1].Maker.Inactive {
		t.Errorf("without a template: %+v", got)
	}
	for condition, over := range map[string]bool{"Provisioned": false, "BookingExpired": true, "Failed": true} {
		o := Parse(ProvisioningRequest, object(t, spec+"\nstatus: {conditions: [{type: "+condition+", status: \"True\"}]}"))
		if o.Maker.Over != over {
			t.Errorf("%s: over %v", condition, o.Maker.Over)
		}
	}
	bad := Parse(ProvisioningRequest, object(t, "metadata: {name: x}\nspec: {parameters: {ValidUntilSeconds: soon}}"))
	if bad.Err == nil || !strings.Contains(bad.Err.Error(), "spec.parameters.ValidUntilSeconds") || bad.Request != nil {
		t.Errorf("%v", bad.Err)
	}
}
