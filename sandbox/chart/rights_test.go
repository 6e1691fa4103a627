package chart

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// Accounts with limited permissions, and their namespace, from testdata/world.yaml.
const (
	visitors = "visitors"
	viewer   = "viewer"
	noRights = "no-rights"
)

// maxCalls bounds the requests of one run in this small cluster.
const maxCalls = 80

// forFixes lists sources that a check reads only to write a command, after it has found something elsewhere.
var forFixes = map[string]string{"recording-rules-missing": "deployments and daemonsets", "apiservice-unavailable": "pods"}

// TestLimitedRights: what doctor may not read is unknown, and the missing permission is named. A check that
// could not read its sources is never ok. Doctor writes nothing.
func TestLimitedRights(t *testing.T) {
	b := start(t)
	b.well(t)
	counts := map[string]int{}
	for _, who := range []string{noRights, viewer, doctorUser} {
		t.Run(who, func(t *testing.T) {
			kubeconfig := b.mustMine(t)
			if who != doctorUser {
				var err error
				kubeconfig, err = b.Cluster.ServiceAccountKubeconfig(t.Context(), visitors, who)
				require.NoError(t, err)
			}
			before := len(b.audited(t, who))
			v, err := b.ask(t.Context(), kubeconfig, "--namespace", installed)
			require.NoError(t, err)
			all := b.audited(t, who)
			for _, c := range all { // of all tests
				if !reads(c) {
					t.Errorf("doctor does more than read: %s %s", c.Verb, c.RequestURI)
				}
			}
			calls := all[before:]
			if len(calls) == 0 || len(calls) > maxCalls {
				t.Errorf("%d calls, want 1 to %d", len(calls), maxCalls)
			}
			refused := 0
			for _, c := range calls {
				if c.ResponseStatus.Code == 403 {
					refused++
				}
			}
			if v.Faults+v.Warnings > 0 {
				t.Errorf("findings in a world in order: %v", v.worse(b.normal))
			}
			looks := b.looks(t)
			for _, c := range v.Checks {
				counts[who+" "+c.Result]++
				if c.Result == "unknown" && b.normal.of(c.ID).Result != "unknown" && !strings.Contains(c.Why, "list ") && !strings.Contains(c.Why, "get ") {
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
	if counts[noRights+" ok"] > counts[viewer+" ok"] || counts[viewer+" ok"] > counts[doctorUser+" ok"] {
		t.Errorf("who may read less finds more in order: %v", counts)
	}
}

// looks returns what each check reads, according to --list.
func (b *env) looks(t *testing.T) map[string][]string {
	t.Helper()
	v, err := b.run(t.Context(), b.mustMine(t), "--list")
	require.NoError(t, err)
	out := map[string][]string{}
	for line := range strings.Lines(v.out) {
		if at := strings.LastIndex(line, "  "); at > 0 {
			out[strings.Fields(line)[0]] = strings.Split(strings.TrimSpace(line[at:]), ", ")
		}
	}
	return out
}

// reads reports whether a request changes nothing. Requests about the own permissions are creates.
func reads(c testenv.Call) bool {
	return c.Verb == "get" || c.Verb == "list" || c.Verb == "create" && c.ObjectRef.Resource == "selfsubjectaccessreviews"
}

// account is the last part of the user name of a request.
func account(c testenv.Call) string {
	return c.User.Username[strings.LastIndexByte(c.User.Username, ':')+1:]
}

// doctorAgent is the prefix of doctor's user agent. Users who run the printed commands may write, under the
// same user name.
const doctorAgent = "gpuscale-report-doctor/"

// audited returns all requests so far that doctor has made as a user or service account.
func (p *plane) audited(t *testing.T, who string) []testenv.Call {
	t.Helper()
	return p.Calls(t, func(c testenv.Call) bool { return strings.HasPrefix(c.UserAgent, doctorAgent) && account(c) == who })
}

// TestNothingIsRefused: while gpuscale starts and serves nodes, quotas and an HPA, no request of its programs
// is refused, not even one that they could do without.
func TestNothingIsRefused(t *testing.T) {
	b := start(t)
	answers := map[string]int{}
	for _, c := range b.Calls(t, func(c testenv.Call) bool {
		at := c.RequestReceivedTimestamp
		return strings.HasPrefix(c.User.Username, "system:serviceaccount:"+installed+":") && at.After(b.begun) && at.Before(b.ran)
	}) {
		answers[account(c)]++
		if code := c.ResponseStatus.Code; code == http.StatusForbidden || code == http.StatusUnauthorized {
			t.Errorf("refused: %s: %s %s", account(c), c.Verb, c.RequestURI)
		}
	}
	for _, who := range []string{adapterName, autoscalerName} {
		if answers[who] < 10 {
			t.Errorf("%s asked %d times; was it there at all?", who, answers[who])
		}
	}
}
