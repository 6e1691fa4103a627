package pools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// removingAnnotation on a scale target lists the UIDs of the machines that its replicas no longer
// count. It is written together with the replicas, so that a removal retried after a crash counts
// once.
const removingAnnotation = "gpuscale.io/removing"

// maxRemoving bounds the list; far more than one reconcile may remove.
const maxRemoving = 100

// fieldScale is the field in problems of a target.
const fieldScale = "spec.provider.scale"

// target is the resource whose replicas are the pool's nodes.
type target struct{ object *unstructured.Unstructured }

// machines is how a kind of target identifies its nodes.
type machines interface {
	// size is the last requested size.
	size(t target) (int, error)
	// resize changes t, which has these machines, to request size nodes.
	resize(ctx context.Context, t target, all []unstructured.Unstructured, size int) error
	// all lists the machines of t; node is the name and the providerID of a machine's node.
	all(ctx context.Context, t target) ([]unstructured.Unstructured, error)
	node(machine *unstructured.Unstructured) (name, providerID string)
	// foreign returns what else sizes the target, empty for nothing.
	foreign(t target) string
	// passedOver reports whether a machine that was to be removed still exists and will stay.
	passedOver(t target, machine *unstructured.Unstructured) bool
	// remove removes the machine from t, whose size without it is size.
	remove(ctx context.Context, t target, machine *unstructured.Unstructured) error
}

func gvkOf(p *v1alpha1.ScaleProvider) (schema.GroupVersionKind, error) {
	gv, err := schema.ParseGroupVersion(p.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, &Problem{ReasonTarget, fieldScale + ".apiVersion",
			fmt.Sprintf("%q is no API version", p.APIVersion), "want group/version, such as cluster.x-k8s.io/v1beta2"}
	}
	return gv.WithKind(p.Kind), nil
}

// describe names a target in messages.
func describe(p *v1alpha1.ScaleProvider) string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

// read gets the target's current state from the API server.
func (s *Scale) read(ctx context.Context, pool *v1alpha1.GPUNodePool) (target, error) {
	ref := pool.Spec.Provider.Scale
	gvk, err := gvkOf(ref)
	if err != nil {
		return target{}, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err = s.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, u)
	switch {
	case meta.IsNoMatchError(err):
		return target{}, &Problem{ReasonNoTarget, fieldScale + ".apiVersion",
			fmt.Sprintf("the cluster knows no kind %s in %s", ref.Kind, ref.APIVersion), "install its CRD, or correct apiVersion and kind"}
	case apierrors.IsNotFound(err):
		return target{}, &Problem{ReasonNoTarget, fieldScale + ".name",
			describe(ref) + " does not exist", "create it, or correct namespace and name"}
	case err != nil:
		return target{}, fmt.Errorf("getting %s: %w", describe(ref), err)
	case u.GetDeletionTimestamp() != nil:
		return target{}, &Problem{ReasonNoTarget, fieldScale + ".name", describe(ref) + " is being deleted", "delete the pool too, or name another"}
	}
	return target{object: u}, nil
}

// replicas reads spec.replicas.
func (t target) replicas() (int, error) {
	n, ok, err := unstructured.NestedInt64(t.object.Object, "spec", "replicas")
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: spec.replicas: %w", t.name(), err)
	case !ok:
		return 0, &Problem{ReasonTarget, fieldScale + ".name", t.name() + " has no spec.replicas", "set it there to the size it has now"}
	}
	return int(n), nil
}

func (t target) setReplicas(n int) error {
	if err := unstructured.SetNestedField(t.object.Object, int64(n), "spec", "replicas"); err != nil {
		return fmt.Errorf("%s: spec.replicas: %w", t.name(), err)
	}
	return nil
}

func (t target) name() string {
	return describe(&v1alpha1.ScaleProvider{Kind: t.object.GetKind(), Namespace: t.object.GetNamespace(), Name: t.object.GetName()})
}

// removing returns the UIDs that the size no longer counts.
func (t target) removing() []string {
	return strings.FieldsFunc(t.object.GetAnnotations()[removingAnnotation], func(r rune) bool { return r == ',' })
}

// addRemoving adds a machine to the list, without those that no longer exist; of a list that is too long the oldest are
// dropped.
func (t target) addRemoving(all []unstructured.Unstructured, machine *unstructured.Unstructured) {
	there := map[string]bool{}
	for i := range all {
		there[string(all[i].GetUID())] = true
	}
	own := string(machine.GetUID())
	t.setRemoving(append(slices.DeleteFunc(t.removing(), func(uid string) bool { return !there[uid] || uid == own }), own))
}

func (t target) setRemoving(uids []string) {
	annotate(t.object, removingAnnotation, strings.Join(uids[max(0, len(uids)-maxRemoving):], ","))
}

func annotate(u *unstructured.Unstructured, key, value string) {
	a := u.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[key] = value
	u.SetAnnotations(a)
}

// machines lists the objects of a kind that have a label with the name of t.
func (t target) machines(ctx context.Context, live client.Reader, kind, label string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind(kind + "List"))
	if err := live.List(ctx, list, client.InNamespace(t.object.GetNamespace()), client.MatchingLabels{label: t.object.GetName()}); err != nil {
		return nil, fmt.Errorf("listing the %ss of %s: %w", kind, t.name(), err)
	}
	return list.Items, nil
}

// going returns the machines that the size no longer counts and that still exist.
func (t target) going(ctx context.Context, kind machines) ([]string, error) {
	if len(t.removing()) == 0 {
		return nil, nil
	}
	all, err := kind.all(ctx, t)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range all {
		if t.leaves(kind, &all[i]) {
			_, id := kind.node(&all[i])
			out = append(out, LastPart(id))
		}
	}
	return out, nil
}

// find returns the machine of the node; nil without one.
func (t target) find(ctx context.Context, kind machines, node *corev1.Node) (*unstructured.Unstructured, error) {
	all, err := kind.all(ctx, t)
	if err != nil {
		return nil, err
	}
	for i := range all {
		name, id := kind.node(&all[i])
		switch {
		case name != node.Name:
		case id != node.Spec.ProviderID:
			return nil, fmt.Errorf("%w: %s %s names it with providerID %q, the node's is %q", ErrUnnamed, all[i].GetKind(), all[i].GetName(), id, node.Spec.ProviderID)
		default:
			return &all[i], nil
		}
	}
	return nil, nil
}

// stringAt is the string at a path of an object, empty for none.
func stringAt(u *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(u.Object, path...)
	return text
}

// LastPart of a providerID identifies a machine within its pool.
func LastPart(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// uncounted reports whether the size no longer counts the machine.
func (t target) uncounted(machine *unstructured.Unstructured) bool {
	return slices.Contains(t.removing(), string(machine.GetUID()))
}

// leaves reports whether the size no longer counts the machine, and its controller is still to remove it.
func (t target) leaves(kind machines, machine *unstructured.Unstructured) bool {
	return t.uncounted(machine) && !kind.passedOver(t, machine)
}

// Names of Cluster API's contract.
const (
	capiGroup             = "cluster.x-k8s.io"
	deleteMachine         = "cluster.x-k8s.io/delete-machine"
	markedBy              = "gpuscale" // our value of deleteMachine
	labelDeployment       = "cluster.x-k8s.io/deployment-name"
	labelSet              = "cluster.x-k8s.io/set-name"
	labelPool             = "cluster.x-k8s.io/pool-name"
	annotationMinSize     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	annotationMaxSize     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	annotationManagedBy   = "cluster.x-k8s.io/replicas-managed-by"
	kindMachineDeployment = "MachineDeployment"
	kindMachinePool       = "MachinePool"
	revisionAnnotation    = "machinedeployment.clusters.x-k8s.io/revision"
	topologyManager       = "capi-topology"
)

// clusterAPI identifies nodes by their Machines: when the replicas are lowered, a Machine with the
// delete-machine annotation goes first. A MachinePool has no such rule: its infrastructure lowers a
// group of the cloud, which chooses the instance (CAPA v2.9: exp/controllers/awsmachinepool), so it
// only scales up.
type clusterAPI struct {
	client client.Client
	live   client.Reader
}

func (clusterAPI) size(t target) (int, error) { return t.replicas() }

// resize raises the replicas only once each marked Machine is removed: the controller would never see the lower number
// and remove nothing. It lowers them only while no MachineSet is outdated, whose Machines would go.
func (c clusterAPI) resize(ctx context.Context, t target, all []unstructured.Unstructured, size int) error {
	have, err := t.replicas()
	if err != nil {
		return err
	}
	for i := range all {
		if size > have && t.leaves(c, &all[i]) && all[i].GetDeletionTimestamp() == nil {
			return fmt.Errorf("%w: %s has not removed Machine %s yet", ErrBusy, t.name(), all[i].GetName())
		}
	}
	if size < have {
		if outdated, err := c.outdated(ctx, t, setsOf(all)); err != nil || len(outdated) > 0 {
			return cmp.Or(err, fmt.Errorf("%w: %s shrinks its outdated MachineSets %v first", ErrUnnamed, t.name(), outdated))
		}
	}
	return t.setReplicas(size)
}

func (clusterAPI) foreign(t target) string {
	a := t.object.GetAnnotations()
	for _, key := range []string{annotationMinSize, annotationMaxSize} {
		if _, ok := a[key]; ok {
			return "cluster-autoscaler, by the annotation " + key
		}
	}
	if by, ok := a[annotationManagedBy]; ok {
		return fmt.Sprintf("%q, by the annotation %s", by, annotationManagedBy)
	}
	if owner := metav1.GetControllerOf(t.object); owner != nil {
		return fmt.Sprintf("%s %s, which owns it; name that one instead", owner.Kind, owner.Name)
	}
	for _, m := range t.object.GetManagedFields() {
		if m.Manager == topologyManager && owns(m.FieldsV1, "spec", "replicas") {
			return "the Cluster's topology; take replicas out of its spec.topology.workers"
		}
	}
	return ""
}

// owns reports whether a field is in an entry of managedFields.
func owns(f *metav1.FieldsV1, path ...any) bool {
	var set fieldpath.Set
	return f != nil && set.FromJSON(f.GetRawReader()) == nil && set.Has(fieldpath.MakePathOrDie(path...))
}

// all lists the Machines of the target.
func (c clusterAPI) all(ctx context.Context, t target) ([]unstructured.Unstructured, error) {
	return t.machines(ctx, c.live, "Machine", map[string]string{kindMachineDeployment: labelDeployment, "MachineSet": labelSet, kindMachinePool: labelPool}[t.object.GetKind()])
}

func (clusterAPI) node(machine *unstructured.Unstructured) (name, providerID string) {
	return stringAt(machine, "status", "nodeRef", "name"), stringAt(machine, "spec", "providerID")
}

// passedOver reports whether the target's controller has processed the current replicas: a Machine
// that still exists was not the one it removed.
func (clusterAPI) passedOver(t target, machine *unstructured.Unstructured) bool {
	if machine.GetDeletionTimestamp() != nil {
		return false
	}
	want, _, _ := unstructured.NestedInt64(t.object.Object, "spec", "replicas")
	have, ok, _ := unstructured.NestedInt64(t.object.Object, "status", "replicas")
	return ok && t.observed() && have == want
}

// observed reports whether the target's controller has seen its current spec.
func (t target) observed() bool {
	seen, _, _ := unstructured.NestedInt64(t.object.Object, "status", "observedGeneration")
	return seen == t.object.GetGeneration()
}

// remove marks the Machine and then lowers the replicas, in one write with the Machine's UID:
// interrupted at any point, a second try completes it.
func (c clusterAPI) remove(ctx context.Context, t target, machine *unstructured.Unstructured) error {
	if machine.GetDeletionTimestamp() != nil || t.leaves(c, machine) {
		return nil
	}
	replicas, err := t.replicas()
	if err != nil {
		return err
	}
	all, err := c.all(ctx, t)
	if err != nil {
		return err
	}
	if err := c.mayShrink(ctx, t, all, machine); err != nil {
		return err
	}
	// Of several marked Machines Cluster API removes the first by name (v1.14: machineset_deletion_order.go). One that the
	// size still counts had its mark of a removal that ended before the replicas were lowered; pods may run there by now.
	for i := range all {
		m := &all[i]
		other := m.GetUID() != machine.GetUID() && m.GetAnnotations()[deleteMachine] == markedBy
		if other && m.GetDeletionTimestamp() == nil && !t.leaves(c, m) {
			if err := c.mark(ctx, m, false); err != nil {
				return err
			}
		}
	}
	if err := c.mark(ctx, machine, true); err != nil {
		return err
	}
	before := t.object.DeepCopy()
	t.addRemoving(all, machine)
	if err := t.setReplicas(max(0, replicas-1)); err != nil {
		return err
	}
	return patch(ctx, c.client, before, t.object, "lowering")
}

// mark sets or removes the annotation by which Cluster API removes a Machine before others.
func (c clusterAPI) mark(ctx context.Context, machine *unstructured.Unstructured, on bool) error {
	if _, marked := machine.GetAnnotations()[deleteMachine]; marked == on {
		return nil
	}
	before := machine.DeepCopy()
	if on {
		annotate(machine, deleteMachine, markedBy)
	} else {
		unstructured.RemoveNestedField(machine.Object, "metadata", "annotations", deleteMachine)
	}
	return patch(ctx, c.client, before, machine, "marking")
}

// mayShrink returns why a target with fewer replicas might remove another Machine than the marked one. While a rollout
// moves the replicas of a MachineDeployment between its MachineSets, that is open. With the strategy OnDelete several
// MachineSets stay for as long as users like, and an outdated one shrinks first.
func (c clusterAPI) mayShrink(ctx context.Context, t target, all []unstructured.Unstructured, machine *unstructured.Unstructured) error {
	sets := setsOf(all)
	if len(sets) < 2 {
		return nil
	}
	strategy := cmp.Or(stringAt(t.object, "spec", "rollout", "strategy", "type"), stringAt(t.object, "spec", "strategy", "type"))
	if strategy != "OnDelete" || !t.observed() {
		return fmt.Errorf("%w: %s has Machines of more than one MachineSet, a rollout is under way", ErrBusy, t.name())
	}
	outdated, err := c.outdated(ctx, t, sets)
	if own := machine.GetLabels()[labelSet]; err == nil && !slices.Equal(outdated, []string{own}) {
		return fmt.Errorf("%w: %s shrinks its outdated MachineSets %v first, and Machine %s is of %s", ErrUnnamed, t.name(), outdated, machine.GetName(), own)
	}
	return err
}

// setsOf returns the MachineSets of Machines, sorted.
func setsOf(all []unstructured.Unstructured) []string {
	var out []string
	for i := range all {
		out = append(out, all[i].GetLabels()[labelSet])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// outdated returns those MachineSets that have another revision than their MachineDeployment. Of fewer replicas, Cluster
// API takes theirs first (v1.9 to v1.14: machinedeployment_rollout_ondelete.go); which of several has changed.
func (c clusterAPI) outdated(ctx context.Context, t target, sets []string) ([]string, error) {
	var out []string
	for _, name := range sets {
		var set metav1.PartialObjectMetadata
		set.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind("MachineSet"))
		if err := c.live.Get(ctx, client.ObjectKey{Namespace: t.object.GetNamespace(), Name: name}, &set); err != nil {
			return nil, fmt.Errorf("getting MachineSet %s: %w", name, err)
		}
		if set.Annotations[revisionAnnotation] != t.object.GetAnnotations()[revisionAnnotation] {
			out = append(out, name)
		}
	}
	return out, nil
}
