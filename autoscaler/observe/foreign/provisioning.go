package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Classes of ProvisioningRequests that can be served (cluster-autoscaler 1.34, apis/provisioningrequest/v1).
const (
	CheckCapacity = "check-capacity.autoscaling.x-k8s.io"
	AtomicScaleUp = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
)

// Conditions of a ProvisioningRequest.
const (
	RequestAccepted    = "Accepted"
	RequestProvisioned = "Provisioned"
	RequestFailed      = "Failed"
	RequestExpired     = "BookingExpired"
)

// Request is what a ProvisioningRequest says besides its pods, which are its Maker's.
type Request struct {
	Class string
	// Templates are the names of the PodTemplates of the Maker's roles.
	Templates []string
	// Missing is the first of them that there is not; set by Resolve.
	Missing string
	// ValidFor is how long after its creation the request fails if it is not provisioned; 0 if not set.
	ValidFor time.Duration
	// NoRetry: a check that finds no capacity is the last.
	NoRetry    bool
	Conditions []metav1.Condition
}

// Settled reports whether nothing more is done for a request but the end of its booking.
func (r *Request) Settled() bool { return isTrue(r.Conditions, RequestProvisioned, RequestFailed) }

// parseProvisioningRequest reads a ProvisioningRequest: pods for which capacity is requested before they
// exist. They are demand until its booking has expired.
func parseProvisioningRequest(f fields, o *Object) {
	r := &Request{Class: f.text("spec.provisioningClassName"), NoRetry: f.text("spec.parameters.noRetry") == "true", Conditions: f.conditions()}
	if text := f.text("spec.parameters.ValidUntilSeconds"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			f.fail("spec.parameters.ValidUntilSeconds", fmt.Errorf("%q is no number of seconds", text))
		}
		r.ValidFor = time.Duration(seconds) * time.Second
	}
	m := &Maker{
		Sets: 1, Over: isTrue(r.Conditions, RequestFailed, RequestExpired),
		Inactive: r.Class != AtomicScaleUp, // a check adds no node
	}
	if c := meta.FindStatusCondition(r.Conditions, RequestAccepted); c != nil {
		m.Admitted = c.LastTransitionTime
	}
	for i, set := range f.list("spec.podSets") {
		r.Templates = append(r.Templates, set.text("podTemplateRef.name"))
		m.Roles = append(m.Roles, Role{Name: strconv.Itoa(i), Count: set.count("count", 1)})
	}
	o.Request, o.Maker = r, m
}

func parsePodTemplate(f fields, o *Object) {
	t := f.template("template")
	o.Template = &t
}

// MadeFor returns the Workload that Kueue made a ProvisioningRequest for, empty for none.
func MadeFor(o *Object) string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && o.Request != nil && ref.Kind == "Workload" {
		return ref.Name
	}
	return ""
}

// Resolve returns the objects with the PodTemplates in the roles of ProvisioningRequests of these classes, and
// without requests of others. A request of which one is missing is no demand.
func (all Objects) Resolve(classes []string) Objects {
	requests, ok := all[ProvisioningRequest]
	if !ok {
		return all
	}
	templates := map[string]*corev1.PodTemplateSpec{}
	for _, o := range all[PodTemplate] {
		if o.Template != nil {
			templates[o.key()] = o.Template
		}
	}
	out := maps.Clone(all)
	out[ProvisioningRequest] = []*Object{}
	for _, o := range requests {
		if o.Request == nil || !slices.Contains(classes, o.Request.Class) {
			continue
		}
		now, maker, request := *o, *o.Maker, *o.Request
		now.Maker, now.Request = &maker, &request
		maker.Roles = slices.Clone(maker.Roles)
		maker.Inactive = maker.Inactive || MadeFor(o) != "" // the Workload is the demand
		for i := 0; i < len(maker.Roles) && MadeFor(o) == ""; i++ {
			t := templates[o.Namespace+"/"+request.Templates[i]]
			if t == nil {
				maker.Inactive, request.Missing = true, request.Templates[i]
				break
			}
			maker.Roles[i].Template = *t
		}
		out[ProvisioningRequest] = append(out[ProvisioningRequest], &now)
	}
	return out
}
