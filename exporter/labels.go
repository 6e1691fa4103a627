package main

import (
	"maps"
	"regexp"
	"slices"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// extraLabels are the labels that flags add to the DCGM series: of pods and of
// batch jobs. It is for one goroutine.
type extraLabels struct {
	jobs *jobMap        // nil without --hpc-job-mapping-dir
	pods *pods.Metadata // nil without pod labels and UIDs
}

func newExtraLabels(c *config, jobs *jobMap, watcher *pods.Watcher) *extraLabels {
	x := &extraLabels{jobs: jobs}
	if watcher != nil && (c.podLabels || c.podUID) {
		x.pods = watcher.Metadata(func(p *pods.Pod) string { return podText(c, p) })
	}
	return x
}

// now gives them as they stand.
func (x *extraLabels) now() collect.Extras {
	var extras collect.Extras
	if x.jobs != nil {
		extras.Jobs = x.jobs.jobs()
	}
	if x.pods != nil {
		extras.Pods = x.pods.Texts()
	}
	return extras
}

// podText renders what the flags ask for of one pod.
func podText(c *config, p *pods.Pod) string {
	uid, labels := "", map[string]string(nil)
	if c.podUID {
		uid = p.UID
	}
	if c.podLabels {
		labels = maps.Clone(p.Labels)
		maps.DeleteFunc(labels, func(name, _ string) bool { return !allows(c.allowed, name) })
	}
	return collect.PodLabels(uid, labels)
}

// allows reports whether a label is wanted; without patterns all are.
func allows(patterns []*regexp.Regexp, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) })
}
