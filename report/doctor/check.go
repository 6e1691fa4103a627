package doctor

import (
	"fmt"
	"slices"
)

// Schema of the JSON form.
const Schema = "gpuscale.io/doctor/v1"

// Severity of a finding.
type Severity string

// Severities. A fault breaks something now; a warning will, or is perhaps intended.
const (
	Warning Severity = "warning"
	Fault   Severity = "fault"
)

// Outcome of a check.
type Outcome string

// Outcomes. Unknown is never ok: what could not be read may be broken.
const (
	OK         Outcome = "ok"
	WithWarn   Outcome = "warning"
	WithFault  Outcome = "fault"
	Unknown    Outcome = "unknown"
	NotLooking Outcome = "skipped"
)

// Finding is one problem of one object.
type Finding struct {
	Severity Severity `json:"severity"`
	// Object, "APIService v1beta1.external.metrics.k8s.io".
	Object string `json:"object"`
	// Seen is the field, value or query with its answer.
	Seen string `json:"seen"`
	// Means is its effect: the check's, unless this finding has another.
	Means string `json:"means"`
	// Fix in one sentence, and as commands to paste.
	Fix      string   `json:"fix"`
	Commands []string `json:"commands"`
}

// Check is one rule and the facts it reads.
type Check struct {
	ID    string
	Title string
	// Fault is the problem that it finds, Means its effect: both for the documentation.
	Fault, Means string
	// Looks are the only facts it reads.
	Looks []Source
	Run   func(*look)
}

// Result of a check.
type Result struct {
	ID      string  `json:"id"`
	Title   string  `json:"title"`
	Outcome Outcome `json:"result"`
	// Why it is unknown or skipped; beside findings, what else could not be read.
	Why      string    `json:"why,omitempty"`
	Findings []Finding `json:"findings"`
	// More is the number of findings left out.
	More int `json:"more,omitempty"`
}

// Report of an examination.
type Report struct {
	Schema string `json:"schema"`
	// Nothing is set where gpuscale was not found, and names what was looked for.
	Nothing string `json:"nothing,omitempty"`
	// Checks in the order of All.
	Checks []Result `json:"checks"`
	// Faults and Warnings count findings, Unknown counts checks.
	Faults   int `json:"faults"`
	Warnings int `json:"warnings"`
	Unknown  int `json:"unknown"`
}

// maxFindings of one check; a cluster has thousands of nodes.
const maxFindings = 20

// Examine runs checks over facts.
func Examine(f *Facts, checks []Check) Report {
	r := Report{Schema: Schema, Nothing: f.nothing()}
	for i := range checks {
		var result Result
		if r.Nothing != "" {
			result = Result{Outcome: NotLooking, Why: "gpuscale was not found"}
		} else {
			result = run(f, &checks[i])
		}
		result.ID, result.Title = checks[i].ID, checks[i].Title
		if result.Findings == nil {
			result.Findings = []Finding{}
		}
		r.Checks = append(r.Checks, result)
		if result.Outcome == Unknown {
			r.Unknown++
		}
	}
	r.count()
	return r
}

// count counts all findings, before the limit.
func (r *Report) count() {
	for i := range r.Checks {
		c := &r.Checks[i]
		for _, finding := range c.Findings {
			if finding.Severity == Fault {
				r.Faults++
			} else {
				r.Warnings++
			}
		}
		if len(c.Findings) > maxFindings {
			c.More = len(c.Findings) - maxFindings
			c.Findings = c.Findings[:maxFindings]
		}
	}
}

func run(f *Facts, c *Check) Result {
	l := &look{f: f, check: c}
	c.Run(l)
	r := Result{Findings: l.findings, Why: l.reasons()}
	// The worst first, and the order of the facts otherwise.
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a.Severity) - rank(b.Severity) })
	switch {
	case len(r.Findings) > 0 && r.Findings[0].Severity == Fault:
		r.Outcome = WithFault
	case len(r.Findings) > 0:
		r.Outcome = WithWarn
	case r.Why != "":
		r.Outcome = Unknown
	case l.skipped != "":
		r.Outcome, r.Why = NotLooking, Clean(l.skipped, maxText)
	default:
		r.Outcome = OK
	}
	return r
}

func rank(s Severity) int {
	if s == Fault {
		return 0
	}
	return 1
}

// Select returns the checks with these ids, in the order of all; all of them for
// none.
func Select(all []Check, ids []string) ([]Check, error) {
	if len(ids) == 0 {
		return all, nil
	}
	var out []Check
	for _, c := range all {
		if slices.Contains(ids, c.ID) {
			out = append(out, c)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.ID == id }) {
			return nil, fmt.Errorf("%q: there is no such check; --list has them", id)
		}
	}
	return out, nil
}

// Sources that checks read, each once, in the order of the table of sources.
func Sources(checks []Check) []Source {
	wanted := map[Source]bool{Deployments: true, DaemonSets: true, APIServices: true}
	for _, c := range checks {
		for _, s := range c.Looks {
			wanted[s] = true
		}
	}
	var out []Source
	for _, d := range Table {
		if wanted[d.Source] {
			out = append(out, d.Source)
		}
	}
	return out
}
