package crashstory

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Call is one write to the API server, by what it is.
type Call struct {
	Verb     string // create, update, patch or delete
	Resource string // "nodes", with a subresource "pods/eviction"
	Name     string // "ns/name" where there is a namespace; empty where it is not known
	Fields   string // of a patch: what it is about, sorted
}

// String identifies a call: "patch nodes mig-1 spec.unschedulable".
func (c Call) String() string {
	return strings.Join(slices.DeleteFunc([]string{c.Verb, c.Resource, c.Name, c.Fields}, func(s string) bool { return s == "" }), " ")
}

// Published reports a call that only publishes: the status of a pool or quota
// without the planner's state. How many there are depends on the clock.
func (c Call) Published() bool {
	return (c.Resource == "gpunodepools/status" || c.Resource == "gpuquotas/status") && !strings.Contains(c.Fields, "status.plannerState")
}

// numbered reports a call that counts as a write of the story's. Leases and
// Events are not: the first are the election's own, the second are repeated.
func (c Call) numbered() bool { return c.Resource != "leases" && c.Resource != "events" }

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// maxBody bounds what is read of a request; the API server takes less.
const maxBody = 4 << 20

// parseCall names a request; false for one that writes nothing.
func parseCall(method, path string, body []byte) (Call, bool) {
	verb, writes := verbs[method]
	if !writes {
		return Call{}, false
	}
	t, ok := parseTarget(path)
	if !ok {
		return Call{}, false
	}
	c := Call{Verb: verb, Resource: t.resource, Name: t.name}
	if c.Verb == "create" && c.Name == "" {
		c.Name = nameIn(body)
	}
	if t.namespace != "" && c.Name != "" {
		c.Name = t.namespace + "/" + c.Name
	}
	if c.Verb == "patch" {
		c.Fields = fieldsOf(body)
	}
	return c, true
}

// target is what a path is about.
type target struct{ namespace, resource, name string }

var requests = request.RequestInfoFactory{APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}}}

// parseTarget reads the path of a request to a resource.
func parseTarget(path string) (target, bool) {
	info, err := requests.NewRequestInfo(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	if err != nil || !info.IsResourceRequest || info.Resource == "" {
		return target{}, false
	}
	t := target{namespace: info.Namespace, resource: info.Resource, name: info.Name}
	if info.Subresource != "" {
		t.resource += "/" + info.Subresource
	}
	return t, true
}

// nameIn is the name of an object in a body, JSON or protobuf; empty where it
// cannot be read.
func nameIn(body []byte) string {
	if o, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if m, err := meta.Accessor(o); err == nil {
			return m.GetName()
		}
	}
	var o struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(body, &o) != nil {
		return ""
	}
	return o.Metadata.Name
}

// fieldsOf a merge patch: two levels below metadata and status.plannerState, one below
// the rest, without the resourceVersion.
func fieldsOf(body []byte) string {
	var patch map[string]any
	if json.Unmarshal(body, &patch) != nil {
		return ""
	}
	var out []string
	var walk func(prefix string, v any, deep int)
	walk = func(prefix string, v any, deep int) {
		m, ok := v.(map[string]any)
		if !ok || deep == 0 || len(m) == 0 {
			out = append(out, prefix)
			return
		}
		for k, v := range m {
			name := k
			if prefix != "" {
				name = prefix + "." + k
			}
			switch name {
			case "metadata.resourceVersion", "metadata.uid":
				continue
			case "metadata.annotations", "metadata.labels", "status.plannerState":
				walk(name, v, 1)
			default:
				walk(name, v, deep-1)
			}
		}
	}
	walk("", patch, 2)
	slices.Sort(out)
	return strings.Join(out, ",")
}
