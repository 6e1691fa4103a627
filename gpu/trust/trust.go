// Package trust decides which scrape targets may report on GPUs and pods that are not their own.
//
// The owner of a scraped pod controls its metrics page: the series and all of their labels. Prometheus
// adds the target's namespace itself, and moves a label of that name on the page to
// exported_namespace. So the namespace label is the target's own, as long as honor_labels is off for
// the job and no relabelling replaces it.
package trust

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// anyNamespace stands for all namespaces.
const anyNamespace = "*"

// Exporters are the namespaces whose targets are believed about the whole cluster: those of GPU
// exporters, in which only administrators create pods. Nil believes every target, an empty list
// none.
type Exporters []string

// From returns the Exporters that a configuration lists; "*" among them stands for every target.
func From(names []string) Exporters {
	if slices.Contains(names, anyNamespace) {
		return nil
	}
	return append(Exporters{}, names...)
}

var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate returns an error for each name that is neither a namespace nor "*"; the list is called
// field.
func Validate(field string, names []string) (errs []error) {
	for i, name := range names {
		if name != anyNamespace && !namespaceName.MatchString(name) {
			errs = append(errs, fmt.Errorf(`%s[%d]: %q is no namespace; "*" stands for all`, field, i, name))
		}
	}
	return errs
}

// Include reports whether targets of the namespace are believed about the whole cluster.
func (e Exporters) Include(target string) bool {
	return e == nil || slices.Contains(e, target)
}

// Allow reports whether a target may report on a namespace: every target may on its own, an
// exporter's on all. about is the page's namespace label, empty where the page has none; target
// is the target's namespace.
func (e Exporters) Allow(about, target string) bool {
	return about == "" || about == target || e.Include(target)
}

// Witness is, for each program, a family that its page always has, without a namespace label. A
// target in a trusted namespace that has this family is the program.
var Witness = map[metric.Owner]string{
	metric.Exporter:   metric.GPUInfo.Name,
	metric.Adapter:    metric.AdapterReloadGood.Name,
	metric.Autoscaler: metric.AutoscalerLeader.Name,
}

// Family returns the program whose page has a series, and whether the page may give it a namespace.
// ours is false for the series of other software.
func Family(series string) (owner metric.Owner, namespaced, ours bool) {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if d, found := metric.Find(strings.TrimSuffix(series, suffix)); found {
			return d.Owner, slices.Contains(d.AllLabels(), metric.LabelNamespace), true
		}
	}
	return "", false, false
}

// Labels that Prometheus sets on each series, and one that it moves the page's own value to.
const (
	exportedNamespace = metric.Exported + metric.LabelNamespace
	job               = "job"
	instance          = "instance"
)

// Selector returns the PromQL selector of the family's series that exporters' targets report.
//
// Precondition: the exporter's page gives the family no namespace label, which would replace the
// target's with honor_labels. Query is for families that may have one.
func (e Exporters) Selector(name string) string {
	if e == nil {
		return name
	}
	return name + `{` + e.matcher("=~") + `}`
}

// Query returns a PromQL expression: of, applied to the selector of the family's series that exporters'
// targets report. It is for families whose series may have a namespace on the exporter's page.
//
// With honor_labels such a series has the page's namespace instead of the target's. Its target is an
// exporter's if a series of the family witness, which has no namespace on the page, has the same job
// and instance. of must keep those two labels.
//
// A target without honor_labels cannot set its job and instance, nor its namespace.
func (e Exporters) Query(name, witness string, of func(selector string) string) string {
	if len(e) == 0 {
		return of(e.Selector(name))
	}
	honored := fmt.Sprintf(`%s{%s,%s="",%s!="",%s!=""}`, name, e.matcher("!~"), exportedNamespace, job, instance)
	return fmt.Sprintf(`(%s) or (%s) and on (%s, %s) %s`, of(e.Selector(name)), of(honored), job, instance, e.Selector(witness))
}

// matcher compares the namespace with the list. No name has a character that a regular expression
// interprets. The empty list matches nothing, not even a missing label.
func (e Exporters) matcher(operator string) string {
	if len(e) == 0 {
		return metric.LabelNamespace + `="",` + metric.LabelNamespace + `!=""`
	}
	return metric.LabelNamespace + operator + `"` + strings.Join(e, "|") + `"`
}
