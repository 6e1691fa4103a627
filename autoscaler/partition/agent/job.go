package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// OffAnnotation on a node keeps its agent from beginning anything.
const OffAnnotation = "gpuscale.io/mig-agent-off"

// errInterrupted: the operation has changed or the API server is away; the next
// look at the node tells how it goes on.
var errInterrupted = errors.New("interrupted")

// noteTries at a node that others write to as well.
const noteTries = 5

// job is the work on one record.
type job struct {
	a      *Agent
	record partition.Record
	answer partition.Answer
	// known is false where the agent's diary may be lost: it cannot tell then
	// whether it has touched the card.
	known   bool
	quiet   []string  // cards that the exporter was asked to let go of
	quietAt time.Time // when
}

// serve does what a record says, to its end; worked is false where nothing is
// left to do.
func (a *Agent) serve(ctx context.Context, node *corev1.Node, r partition.Record) (worked bool, err error) {
	j := &job{a: a, record: r}
	j.answer, j.known = begin(node, r)
	if j.answer.Final() {
		return false, nil
	}
	log := a.o.Log.With("operation", r.ID, "card", r.Card)
	log.Info("operation", "target", r.Target, "before", r.Before, "step", j.answer.Step, "back", j.back())
	defer func() { j.resume(ctx) }()
	state, why := partition.AgentDone, error(nil)
	if !j.back() {
		why = j.forward(ctx, node)
		a.o.Metrics.ended(phaseCut, j.result(ctx, why))
	}
	if interrupted(ctx, why) {
		return true, errors.Join(why, ctx.Err())
	}
	if why != nil {
		j.answer.Back, j.answer.Message, j.answer.Plugins = true, why.Error(), nil
		log.Warn("the card could not be cut", "error", why, "touched", j.answer.Touched)
	}
	if j.back() {
		state = partition.AgentRestored
		err := j.backward(ctx, node)
		if why == nil || j.answer.Touched {
			a.o.Metrics.ended(phaseRestore, j.result(ctx, err))
		}
		if interrupted(ctx, err) {
			return true, errors.Join(err, ctx.Err())
		}
		if err != nil {
			state, j.answer.Message = partition.AgentFailed, join(j.answer.Message, "going back: "+err.Error())
		}
	}
	j.answer.State = state
	if err := j.note(ctx, j.answer.Step); err != nil {
		return true, err
	}
	log.Info("operation ended", "state", state, "why", j.answer.Message)
	return true, nil
}

func interrupted(ctx context.Context, err error) bool {
	return errors.Is(err, errInterrupted) || ctx.Err() != nil
}

// result is the catalogue's word for how a phase ended.
func (j *job) result(ctx context.Context, err error) string {
	switch {
	case interrupted(ctx, err):
		return resultInterrupted
	case err == nil:
		return resultDone
	case !j.answer.Touched:
		return resultRefused
	}
	return resultFailed
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// begin returns the answer to go on with: the one on the node, or a new one that
// knows what an earlier attempt has left behind. known is false where there should
// be one and is none that can be read.
func begin(node *corev1.Node, r partition.Record) (a partition.Answer, known bool) {
	fresh := partition.Answer{ID: r.ID, State: partition.AgentWorking}
	if r.Undo != nil {
		fresh.Undo = r.Undo.Attempts
	}
	text, there := node.Annotations[partition.AgentAnnotation]
	a, err := partition.ParseAnswer(text)
	switch {
	case there && err != nil:
		return fresh, false
	case !there || a.ID != r.ID:
		return fresh, r.Undo == nil
	case a.About(r):
		return a, true
	}
	fresh.Touched = a.Touched && a.State != partition.AgentRestored
	return fresh, true
}

func (j *job) back() bool { return j.record.Undo != nil || j.answer.Back }

// forward makes the card what the record wants.
func (j *job) forward(ctx context.Context, node *corev1.Node) error {
	if !j.answer.Touched {
		machine, err := j.a.o.Hardware.Read(ctx)
		if err != nil {
			return err
		}
		if err := j.a.permitted(node, machine); err != nil {
			return err
		}
		if err := j.expected(machine); err != nil {
			return err
		}
		if _, err := j.a.plugins(ctx); err != nil {
			return err
		}
	}
	return j.change(ctx, j.record.Target, false)
}

// expected says why the card is not the one that the operation was decided on, nil
// for nothing. Where instances lie may have been guessed; how many there are was not.
func (j *job) expected(m machine) error {
	if j.record.UUID == "" {
		return fmt.Errorf("the operation does not say which card by its UUID, and that with index %d may be another by now", j.record.Card)
	}
	c, err := find(m, j.record.UUID, j.record.Card)
	if err != nil {
		return err
	}
	if err := j.asBefore(c); err != nil {
		return fmt.Errorf("this was decided on something else: %w", err)
	}
	if _, err := tableOf(c); err != nil && !c.MIG {
		return nil // it says so once it is in MIG mode
	}
	_, err = parse(c, j.record.Target)
	return err
}

// asBefore says how the card differs from what it was, nil for not at all.
func (j *job) asBefore(c card) error {
	switch {
	case c.MIG == j.record.Whole:
		return fmt.Errorf("card %d: MIG mode is %s", c.Index, map[bool]string{true: "on", false: "off"}[c.MIG])
	case !c.MIG:
		return nil
	}
	before, err := parse(c, j.record.Before)
	if err != nil {
		return err
	}
	if !slices.Equal(mig.Counts(before), mig.Counts(c.Layout())) {
		return fmt.Errorf("card %d is cut into %s, not %s", c.Index, c.Layout(), before)
	}
	return nil
}

// permitted says why nothing may be begun on this node, nil for nothing. What has
// been begun is finished all the same.
func (a *Agent) permitted(node *corev1.Node, m machine) error {
	if a.o.Config.Freeze {
		return errors.New("switched off by the agent's configuration (freeze: true)")
	}
	if _, off := node.Annotations[OffAnnotation]; off {
		return fmt.Errorf("switched off by the node's annotation %s", OffAnnotation)
	}
	if a.o.Config.AllowUnfixedDriver {
		return nil
	}
	return fixed(m.Driver, a.o.Config.FixedDrivers)
}

// backward makes the card what it was. What was never touched is that.
func (j *job) backward(ctx context.Context, node *corev1.Node) error {
	if !j.answer.Touched && j.known {
		return nil
	}
	if !j.answer.Touched {
		machine, err := j.a.o.Hardware.Read(ctx)
		if err != nil {
			return err
		}
		c, err := find(machine, j.record.UUID, j.record.Card)
		if err != nil {
			return err
		}
		differs := j.asBefore(c)
		if differs == nil {
			return nil
		}
		if err := errors.Join(j.a.permitted(node, machine), j.named()); err != nil {
			return fmt.Errorf("%w, and annotation %s, which said why, is lost: %w", differs, partition.AgentAnnotation, err)
		}
	}
	return j.change(ctx, j.record.Before, j.record.Whole)
}

// named says that a record has no UUID: what is not known to have been touched must
// not be found by an index.
func (j *job) named() error {
	if j.record.UUID == "" {
		return errors.New("the operation does not say which card by its UUID")
	}
	return nil
}

// change cuts the card and has everybody look at it again. Nothing of it is done
// twice that must not be.
func (j *job) change(ctx context.Context, layout string, whole bool) error {
	if j.answer.Plugins == nil {
		if err := j.cut(ctx, layout, whole); err != nil {
			return err
		}
	}
	if !j.answer.Touched {
		return nil // it was so already
	}
	if j.answer.Plugins == nil {
		uids, err := j.a.plugins(ctx)
		if err != nil {
			return err
		}
		j.answer.Plugins = uids
	}
	if err := j.note(ctx, "restart the device plugin"); err != nil {
		return err
	}
	return j.a.replacePlugins(ctx, j.answer.Plugins)
}

// note writes what is about to be done on the node, and makes sure that the
// operation still stands and, on the way forward, has time left.
func (j *job) note(ctx context.Context, step string) error {
	now := j.a.o.Now()
	if !j.back() && !j.answer.Final() && now.After(j.record.Deadline) {
		return fmt.Errorf("its deadline %s has passed before: %s", j.record.Deadline.UTC().Format(time.RFC3339), step)
	}
	j.answer.Step, j.answer.At = clip(step), now.UTC().Truncate(time.Second)
	j.answer.Message = clip(j.answer.Message)
	var err error
	for range noteTries {
		var node *corev1.Node
		if node, err = j.a.o.Cluster.Node(ctx); err != nil {
			break
		}
		r, ok, readErr := partition.RecordOf(node)
		if !ok || readErr != nil || !j.answer.About(r) {
			return fmt.Errorf("%w: the operation has changed or is gone", errInterrupted)
		}
		err = j.a.o.Cluster.annotate(ctx, node.ResourceVersion, map[string]any{partition.AgentAnnotation: j.answer.String()})
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return nil
}

// maxWords bounds what is written on the node in words: a diary that is too long to
// be read is a lost one.
const maxWords = 2 << 10

func clip(text string) string {
	if len(text) > maxWords {
		text = text[:maxWords] + " …"
	}
	return strings.ToValidUTF8(text, "")
}

// quietFor is how long the exporter stays away at most, if nobody calls it back. It
// is asked again before half of that is over.
const quietFor = 5 * time.Minute

// quiesce has the exporter let go of cards.
func (j *job) quiesce(ctx context.Context, cards []string) error {
	missing := slices.ContainsFunc(cards, func(c string) bool { return !slices.Contains(j.quiet, c) })
	if !missing && time.Since(j.quietAt) < quietFor/2 {
		return nil
	}
	defer j.a.o.Metrics.timed(verbExporter, time.Now())
	if err := j.a.o.Exporter.Quiesce(ctx, j.record.ID, cards, quietFor); err != nil {
		return err
	}
	j.quiet, j.quietAt = cards, time.Now()
	return nil
}

// resume has the exporter watch the cards again, those too that it let go of before
// the agent was started anew. It does so by itself in the end.
func (j *job) resume(ctx context.Context) {
	if len(j.quiet) == 0 && j.answer.Touched && j.record.UUID != "" {
		j.quiet = []string{j.record.UUID}
	}
	if len(j.quiet) == 0 {
		return
	}
	if err := j.a.o.Exporter.Resume(context.WithoutCancel(ctx), j.quiet); err != nil {
		j.a.o.Log.Warn("the exporter was not called back", "cards", j.quiet, "error", err)
	}
}

// parse reads a layout of the card.
func parse(c card, text string) (mig.Layout, error) {
	table, err := tableOf(c)
	if err != nil {
		return nil, err
	}
	return mig.ParseLayout(table, text)
}
