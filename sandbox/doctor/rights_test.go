package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The accounts of people who may do little, and their namespace.
const (
	visitors = "visitors"
	viewer   = "viewer"
	nobody   = "nobody"
)

// maxCalls bounds what one run may ask of the API server in this small world.
const maxCalls = 80

// forFixes are what checks look at only to write a command, once they have found
// something elsewhere.
var forFixes = map[string]string{"recording-rules-missing": "deployments and daemonsets", "apiservice-ca": "pods"}

// TestLittleRights: what may not be read is unknown, and the right that is missing is
// named. Nothing that was not looked at is in order.
func TestLittleRights(t *testing.T) {
	b := start(t)
	b.makeVisitors(t)
	b.well(t)
	counts := map[string]int{}
	for _, who := range []string{nobody, viewer, doctorUser} {
		t.Run(who, func(t *testing.T) {
			kubeconfig := b.mustMine(t)
			if who != doctorUser {
				var err error
				if kubeconfig, err = b.cluster.ServiceAccountKubeconfig(t.Context(), visitors, who); err != nil {
					t.Fatal(err)
				}
			}
			before := len(b.audited(t, who))
			v, err := b.ask(t.Context(), kubeconfig, "--namespace", installed)
			if err != nil {
				t.Fatal(err)
			}
			calls := b.audited(t, who)[before:]
			if len(calls) == 0 || len(calls) > maxCalls {
				t.Errorf("%d calls, want 1 to %d", len(calls), maxCalls)
			}
			refused := 0
			for _, c := range calls {
				if c.ResponseStatus.Code == 403 {
					refused++
				}
				if !c.reads() {
					t.Errorf("doctor does more than read: %s %s", c.Verb, c.RequestURI)
				}
			}
			if v.Faults+v.Warnings > 0 {
				t.Errorf("findings in a world in order: %v", v.worse(b.normal))
			}
			looks := b.looks(t)
			for _, c := range v.Checks {
				counts[who+" "+c.Result]++
				if c.Result == "unknown" && b.normal.of(c.ID).Result != "unknown" && !namesRight(c.Why) {
					t.Errorf("%s is unknown and names no right: %s", c.ID, c.Why)
				}
				for _, k := range calls {
					if c.Result == "ok" && !strings.Contains(forFixes[c.ID], k.ObjectRef.Resource) && k.ResponseStatus.Code == 403 && slices.Contains(looks[c.ID], k.ObjectRef.Resource) {
						t.Errorf("%s is called ok, and %s was refused, which it looks at", c.ID, k.RequestURI)
					}
				}
			}
			if (who == doctorUser) != (refused == 0) || (who == doctorUser) != (v.Unknown == b.normal.Unknown) {
				t.Errorf("%d calls refused, %d checks unknown", refused, v.Unknown)
			}
			t.Logf("%d calls, %d of them refused; %d checks unknown; exit %d", len(calls), refused, v.Unknown, v.code)
		})
	}
	if counts[nobody+" ok"] > counts[viewer+" ok"] || counts[viewer+" ok"] > counts[doctorUser+" ok"] {
		t.Errorf("who may read less finds more in order: %v", counts)
	}
}

// looks is what each check looks at, as --list says.
func (b *bed) looks(t *testing.T) map[string][]string {
	t.Helper()
	v, err := b.run(t.Context(), b.mustMine(t), "--list")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(v.out) {
		if at := strings.LastIndex(line, "  "); at > 0 {
			out[strings.Fields(line)[0]] = strings.Split(strings.TrimSpace(line[at:]), ", ")
		}
	}
	return out
}

// namesRight says whether a text names a verb and a resource that somebody could
// be given.
func namesRight(why string) bool {
	for _, verb := range []string{"list ", "get "} {
		if strings.Contains(why, verb) {
			return true
		}
	}
	return false
}

// makeVisitors makes the two accounts. They may do no harm to other tests, so they
// stay.
func (b *bed) makeVisitors(t *testing.T) {
	t.Helper()
	for _, err := range []error{
		b.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: visitors}}),
		b.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: visitors, Name: viewer}}),
		b.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: visitors, Name: nobody}}),
		b.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "visitors-view"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: visitors, Name: viewer}},
		}),
	} {
		if err != nil && !isThere(err) {
			t.Fatal(err)
		}
	}
}

// call is a line of the audit log.
type call struct {
	Verb, RequestURI, UserAgent string
	User                        struct{ Username string }
	ObjectRef                   struct{ Resource, Subresource string }
	ResponseStatus              struct{ Code int }
}

// reads says whether a call changes nothing. To ask what one may do is a create.
func (c call) reads() bool {
	switch c.Verb {
	case "get", "list":
		return true
	case "create":
		return c.ObjectRef.Resource == "selfsubjectaccessreviews"
	}
	return false
}

// doctorAgent begins what doctor says it is. Who types in what it prints may write, in
// the same user's name.
const doctorAgent = "gpuscale-report-doctor/"

// audited are all calls that doctor made so far as a user or service account.
func (b *bed) audited(t *testing.T, who string) []call {
	t.Helper()
	file, err := os.Open(b.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []call
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			continue // the last line may be half written
		}
		if strings.HasPrefix(c.UserAgent, doctorAgent) && c.User.Username[strings.LastIndexByte(c.User.Username, ':')+1:] == who {
			out = append(out, c)
		}
	}
	return out
}

// TestOnlyReads: whatever doctor was run on so far, by whatever test, it wrote
// nothing.
func TestOnlyReads(t *testing.T) {
	b := start(t)
	if _, err := b.ask(context.WithoutCancel(t.Context()), b.mustMine(t)); err != nil {
		t.Fatal(err)
	}
	calls := b.audited(t, doctorUser)
	if len(calls) < 10 {
		t.Fatalf("%d calls written down; was doctor there at all?", len(calls))
	}
	wrote := map[string]int{}
	for _, c := range calls {
		if !c.reads() {
			wrote[c.Verb+" "+c.RequestURI]++
		}
	}
	for what, n := range wrote {
		t.Errorf("%d times %s", n, what)
	}
	t.Logf("%d calls", len(calls))
}
