package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// Bounds of a job mapping: a scheduler puts a handful of jobs on a GPU.
const (
	maxJobFile = 64 << 10
	maxJobs    = 100
)

// jobMap is a batch scheduler's mapping of jobs to GPUs and instances: a folder
// with a file named by a GPU's index ("0") or by a GPU and a GPU instance id
// ("0.11"), a job a line.
type jobMap struct {
	folder string
	log    *slog.Logger
	now    atomic.Pointer[map[collect.JobPlace][]string]
	failed string // as last logged
}

func newJobMap(folder string, log *slog.Logger) *jobMap {
	j := &jobMap{folder: folder, log: log}
	j.read()
	return j
}

// run reads the folder again every two seconds, until ctx ends.
func (j *jobMap) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { j.read() }, lookEvery)
}

// jobs are those last read.
func (j *jobMap) jobs() map[collect.JobPlace][]string { return *j.now.Load() }

// read reads what is readable. A folder that is gone has no jobs: its scheduler
// removes the files when jobs end.
func (j *jobMap) read() {
	jobs, err := readJobs(j.folder)
	if text := fmt.Sprint(err); err != nil && text != j.failed {
		j.log.Warn("job mapping not read", "error", err)
		j.failed = text
	} else if err == nil && j.failed != "" {
		j.log.Info("job mapping read again")
		j.failed = ""
	}
	j.now.Store(&jobs)
}

// readJobs returns what could be read, beside the errors of what could not.
func readJobs(folder string) (map[collect.JobPlace][]string, error) {
	jobs := map[collect.JobPlace][]string{}
	root, err := os.OpenRoot(folder) // a link out of it would show the exporter's secrets to users who write there
	var files []os.DirEntry
	if err == nil {
		defer root.Close()
		files, err = os.ReadDir(folder)
	}
	if err != nil {
		return jobs, fmt.Errorf("job mapping folder: %w", err)
	}
	var errs []error
	for _, f := range files {
		place, ok := parseJobPlace(f.Name())
		if !ok {
			continue
		}
		path := filepath.Join(folder, f.Name())
		found, err := readJobFile(root, f.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job mapping %s: %w", path, err))
		}
		if len(found) > 0 {
			jobs[place] = found
		}
	}
	return jobs, errors.Join(errs...)
}

// parseJobPlace reads "0" or "0.11".
func parseJobPlace(name string) (collect.JobPlace, bool) {
	device, instance, cut := strings.Cut(name, ".")
	gpu, err := strconv.ParseUint(device, 10, 16)
	if err != nil {
		return collect.JobPlace{}, false
	}
	if !cut {
		return collect.JobPlace{GPU: int(gpu), Instance: -1}, true
	}
	id, err := strconv.ParseUint(instance, 10, 16)
	return collect.JobPlace{GPU: int(gpu), Instance: int(id)}, err == nil
}

// readJobFile returns a file's lines, each job once. A job named twice would
// make two series of one name.
func readJobFile(root *os.Root, name string) ([]string, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	var jobs []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxJobFile)
	for lines.Scan() {
		job := strings.TrimSpace(lines.Text())
		if job == "" || slices.Contains(jobs, job) {
			continue
		}
		if len(jobs) == maxJobs {
			return jobs, fmt.Errorf("more than %d jobs; the others are left out", maxJobs)
		}
		jobs = append(jobs, job)
	}
	return jobs, lines.Err()
}

// podText renders the labels that the flags ask for of one pod.
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
