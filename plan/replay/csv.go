package replay

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pod is a row of a pod list.
type Pod struct {
	Name   string
	CPU    int // thousandths of a core
	Memory int // MiB
	GPUs   int
	Milli  int // thousandths of each GPU: 1000 unless GPUs is 1
	// Profile names the MIG profile that the pod requests; GPUs is 0 then.
	Profile string
	// Unplayed is why the pod cannot be played, empty where it can.
	Unplayed string
	// Gang is the group of pods that run only all at once; empty for none.
	Gang string
	// Replica pods serve requests: each leaves Run after Created, bound or not, and
	// is evictable, since its work is not lost.
	Replica bool
	// Created is when the pod arrives, in the trace's time, and Run how long it runs
	// once it is bound.
	Created, Run time.Duration
}

// Bounds of a row's numbers: beyond any machine, and small enough that sums do
// not overflow.
const (
	maxAmount  = 1 << 40
	maxGPUs    = 256
	maxSeconds = 1 << 32 // a century
)

// ReadPods reads a pod list: CSV whose header names the columns name,
// cpu_milli, memory_mib, num_gpu, gpu_milli, creation_time and deletion_time, in
// any order. scheduled_time and gang are optional, others are ignored. Times are seconds.
// A pod runs from scheduled_time, or from creation_time where that is empty, to
// deletion_time. A pod without deletion_time still runs: it counts until the newest time of
// the list. Errors have file and line; name is the file's name in them.
func ReadPods(name string, r io.Reader) ([]Pod, error) {
	var pods []Pod
	seen := map[string]bool{}
	newest, running := 0, map[int]int{} // since when, by index in pods
	want := []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time"}
	err := readRows(name, r, want, []string{"scheduled_time", "gang"}, func(row *row) error {
		p := Pod{Name: row.text("name"), Gang: row.text("gang"), CPU: row.number("cpu_milli", maxAmount), Memory: row.number("memory_mib", maxAmount),
			GPUs: row.number("num_gpu", maxGPUs), Milli: row.number("gpu_milli", 1000)}
		created := row.number("creation_time", maxSeconds)
		started := created
		if row.text("scheduled_time") != "" {
			started = row.number("scheduled_time", maxSeconds)
		}
		deleted := started
		if row.text("deletion_time") != "" {
			deleted = row.number("deletion_time", maxSeconds)
		} else {
			running[len(pods)] = started
		}
		newest = max(newest, deleted)
		switch {
		case row.err != nil:
		case p.Name == "" || seen[p.Name]:
			row.fail("name", "%q: want a name, each once", p.Name)
		case p.GPUs == 0 && p.Milli != 0:
			row.fail("gpu_milli", "want 0 with num_gpu 0")
		case p.GPUs == 1 && p.Milli == 0:
			row.fail("gpu_milli", "want 1 … 1000 with num_gpu 1")
		case p.GPUs > 1 && p.Milli != 1000:
			row.fail("gpu_milli", "want 1000 with num_gpu above 1: a part is of one GPU")
		case started < created || deleted < started:
			row.fail("deletion_time", "want creation, scheduling and deletion in this order: %d, %d, %d", created, started, deleted)
		}
		seen[p.Name] = true
		p.Created, p.Run = time.Duration(created)*time.Second, time.Duration(deleted-started)*time.Second
		pods = append(pods, p)
		return row.err
	})
	for i, started := range running {
		pods[i].Run = time.Duration(newest-started) * time.Second
	}
	return pods, err
}

// row is one line of a file with a header. It keeps the first error.
type row struct {
	file    string
	reader  *csv.Reader
	columns map[string]int
	fields  []string
	err     error
}

// readRows calls each for every line after the header, which must have each of
// the wanted columns once, and may have the others once.
func readRows(name string, r io.Reader, want, others []string, each func(*row) error) error {
	row := &row{file: name, reader: csv.NewReader(r), columns: map[string]int{}}
	row.reader.ReuseRecord = true
	err := row.next()
	for i, column := range row.fields {
		column = strings.TrimSpace(column)
		if _, twice := row.columns[column]; twice && slices.Contains(slices.Concat(want, others), column) {
			return fmt.Errorf("%s:1: two columns are called %q", name, column)
		}
		row.columns[column] = i
	}
	for _, column := range want {
		if _, ok := row.columns[column]; !ok && (err == nil || errors.Is(err, io.EOF)) {
			return fmt.Errorf("%s:1: no column %q, want %s", name, column, strings.Join(want, ", "))
		}
	}
	for err == nil {
		if err = row.next(); err == nil {
			err = each(row)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (r *row) next() (err error) {
	r.fields, err = r.reader.Read()
	var parse *csv.ParseError
	switch {
	case errors.As(err, &parse):
		return fmt.Errorf("%s:%d: %w", r.file, parse.Line, parse.Err)
	case err != nil:
		return fmt.Errorf("reading %s: %w", r.file, err)
	}
	return nil
}

func (r *row) fail(column, format string, args ...any) {
	if r.err == nil {
		line, _ := r.reader.FieldPos(r.columns[column])
		r.err = fmt.Errorf("%s:%d: %s: %s", r.file, line, column, fmt.Sprintf(format, args...))
	}
}

// text is a field, empty where there is no such column.
func (r *row) text(column string) string {
	if i, ok := r.columns[column]; ok {
		return strings.Clone(strings.TrimSpace(r.fields[i]))
	}
	return ""
}

func (r *row) number(column string, most int) int {
	s := r.text(column)
	// Some tools write whole numbers of a column with gaps as 8.0.
	n, err := strconv.Atoi(strings.TrimSuffix(s, ".0"))
	if err != nil || n < 0 || n > most {
		r.fail(column, "%q: want a whole number, 0 … %d", s, most)
		return 0
	}
	return n
}
