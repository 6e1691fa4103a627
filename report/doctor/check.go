package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Schema of the JSON form.
const Schema = "gpuscale.io/doctor/v1"

// Outcome is the result of a check. With findings, it is the worst severity among them.
type Outcome string

// Outcomes. A fault breaks something now. A warning will break something, or may be intended. Unknown is
// never ok: what could not be read may be broken.
const (
	OK      Outcome = "ok"
	Warning Outcome = "warning"
	Fault   Outcome = "fault"
	Unknown Outcome = "unknown"
	Skipped Outcome = "skipped"
)

// Finding is one problem of one object.
type Finding struct {
	Severity Outcome `json:"severity"`
	// Object, "APIService v1beta1.external.metrics.k8s.io".
	Object string `json:"object"`
	// Seen is the field, value or query with its answer.
	Seen string `json:"seen"`
	// Means is the effect: the check's, unless the finding states another.
	Means string `json:"means"`
	// Fix says in one sentence what to do; Commands can be pasted.
	Fix      string   `json:"fix"`
	Commands []string `json:"commands"`
}

// Check is one rule, with the facts that it reads.
type Check struct {
	ID    string
	Title string
	// Fault is the problem that the check finds, and Means its effect. Both are also used in the documentation.
	Fault, Means string
	// A check reads no other sources than these. Without one of Looks it is not run and is unknown; if GPUNodes is one
	// of Looks and empty, it is skipped. Without one of Also it finds less and is unknown. May are additional sources.
	Looks, Also, May []*Source
	Run              func(*look)
}

// Reads returns all sources of a check.
func (c Check) Reads() []*Source { return slices.Concat(c.Looks, c.Also, c.May) }

// All returns all checks in the order of a diagnosis: installed, scraped, answering, permitted.
func All() []Check {
	return slices.Concat(adapterChecks, scrapeChecks, hpaChecks, quotaChecks, nodeChecks, poolChecks, guardChecks, tenantChecks)
}

// Result is the result of one check.
type Result struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Outcome Outcome `json:"result"`
	// Why is the reason why the check is unknown or skipped. With findings, it says what else could not be read.
	Why      string    `json:"why,omitempty"`
	Findings []Finding `json:"findings"`
	// More counts findings that are left out.
	More int `json:"more,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	Schema string `json:"schema"`
	// Nothing is set if gpuscale was not found, and says what was looked for.
	Nothing string `json:"nothing,omitempty"`
	// Checks in the order of All.
	Checks []Result `json:"checks"`
	// Faults and Warnings count findings, Unknown counts checks.
	Faults   int `json:"faults"`
	Warnings int `json:"warnings"`
	Unknown  int `json:"unknown"`
}

// maxFindings is the bound for one check, since a cluster can have thousands of nodes.
const maxFindings = 20

// Examine runs checks over facts.
func Examine(f *Facts, checks []Check) Report {
	r := Report{Schema: Schema, Nothing: f.nothing()}
	for i := range checks {
		result := Result{Outcome: Skipped, Why: "gpuscale was not found", Findings: []Finding{}}
		if r.Nothing == "" {
			result = run(f, &checks[i])
		}
		result.ID, result.Title = checks[i].ID, checks[i].Title
		if result.Outcome == Unknown {
			r.Unknown++
		}
		for _, finding := range result.Findings {
			if finding.Severity == Fault {
				r.Faults++
			} else {
				r.Warnings++
			}
		}
		if n := len(result.Findings); n > maxFindings {
			result.Findings, result.More = result.Findings[:maxFindings], n-maxFindings
		}
		r.Checks = append(r.Checks, result)
	}
	return r
}

func run(f *Facts, c *Check) Result {
	l := &look{Facts: f, commands: f.Kubectl, check: c, findings: []Finding{}}
	switch {
	case slices.ContainsFunc(c.Looks, func(s *Source) bool { return !l.has(s) }):
	case slices.Contains(c.Looks, GPUNodes) && len(l.answers(GPUNodes)) == 0:
		l.skip("Prometheus has no series of a GPU")
	default:
		c.Run(l)
	}
	for _, s := range slices.Concat(c.Looks, c.Also) {
		if l.skipped == "" {
			l.needs(s)
		}
	}
	for i := range l.findings {
		l.findings[i].finish(c)
	}
	// Faults come before warnings; otherwise the order of the facts is kept.
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	r := Result{Outcome: OK, Findings: l.findings, Why: strings.Join(l.unknown, "; ")}
	switch {
	case len(l.findings) > 0:
		r.Outcome = l.findings[0].Severity
	case l.skipped != "":
		r.Outcome, r.Why = Skipped, clean(l.skipped, maxText)
	case r.Why != "":
		r.Outcome = Unknown
	}
	return r
}

// finish makes a finding safe to print, and fills in the check's effect unless the finding has its own.
func (f *Finding) finish(c *Check) {
	f.Object, f.Seen, f.Fix = clean(f.Object, 2*maxName), clean(f.Seen, maxText), clean(f.Fix, maxText)
	f.Means = clean(cmp.Or(f.Means, strings.ReplaceAll(c.Means, "`", "")), maxText)
	f.Commands = slices.DeleteFunc(append([]string{}, f.Commands...), func(c string) bool { return c == "" })
}

// Select returns the checks with these ids, in the order of all. Without ids it returns all.
func Select(all []Check, ids []string) ([]Check, error) {
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.ID == id }) {
			return nil, fmt.Errorf("%q: there is no such check; --list prints all checks", id)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Check) bool { return len(ids) > 0 && !slices.Contains(ids, c.ID) }), nil
}
