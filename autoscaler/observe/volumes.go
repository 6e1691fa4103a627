package observe

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// volumes finds the nodes on which pods can use their volumes. It follows the scheduler, but returns terms in place of
// node names: the planner asks about nodes that do not exist yet.
type volumes struct {
	claims  map[client.ObjectKey]*corev1.PersistentVolumeClaim
	bound   map[client.ObjectKey]*corev1.PersistentVolume
	free    map[string][]*corev1.PersistentVolume // available ones, by class
	classes map[client.ObjectKey]*storagev1.StorageClass
	most    map[nodeDriver]int64        // volumes that can be attached
	limited []string                    // drivers with a maximum of volumes per node, sorted
	taken   map[client.ObjectKey]string // the pod that has a claim for one pod at a time
}

type nodeDriver struct{ node, driver string }

func newVolumes(claims []corev1.PersistentVolumeClaim, all []corev1.PersistentVolume, classes []storagev1.StorageClass, nodes []storagev1.CSINode, pods []*corev1.Pod) *volumes {
	v := &volumes{
		claims: byKey(claims), bound: byKey(all), classes: byKey(classes),
		free: map[string][]*corev1.PersistentVolume{}, most: map[nodeDriver]int64{}, taken: map[client.ObjectKey]string{},
	}
	for i := range nodes {
		for _, d := range nodes[i].Spec.Drivers {
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				v.most[nodeDriver{nodes[i].Name, d.Name}] = int64(*d.Allocatable.Count)
				v.limited = append(v.limited, d.Name)
			}
		}
	}
	slices.Sort(v.limited)
	v.limited = slices.Compact(v.limited)
	for i := range all {
		pv := &all[i]
		if class := volume.GetPersistentVolumeClass(pv); pv.Status.Phase == corev1.VolumeAvailable && pv.DeletionTimestamp == nil {
			v.free[class] = append(v.free[class], pv)
		}
	}
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			key := client.ObjectKey{Namespace: p.Namespace, Name: claimOfVolume(p.Name, &p.Spec.Volumes[i])}
			if claim := v.claims[key]; claim != nil && p.Spec.NodeName != "" && !kube.IsOver(p) && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
				v.taken[key] = p.Name
			}
		}
	}
	return v
}

// of writes the volumes of a pod into its plan. Claims for ephemeral volumes are named
// after the pod, and looked for only where it has a name.
func (v *volumes) of(p *corev1.Pod, out *plan.Pod) {
	for i := range p.Spec.Volumes {
		name := claimOfVolume(p.Name, &p.Spec.Volumes[i])
		if name == "" {
			continue
		}
		key := client.ObjectKey{Namespace: p.Namespace, Name: name}
		all, unbound := v.reach(key)
		if by := v.taken[key]; by != "" && by != p.Name {
			unbound = cmp.Or(unbound, "is for one pod at a time (ReadWriteOncePod), and pod "+by+" has it")
		}
		if unbound != "" && out.Unbound == "" && out.Node == "" {
			out.Unbound = "PersistentVolumeClaim " + p.Namespace + "/" + name + " " + unbound
		}
		out.Volumes = append(out.Volumes, all...)
		if driver := v.driverOf(v.claims[key]); slices.Contains(v.limited, driver) {
			out.Others = withResource(out.Others, attachable+driver, 1)
		}
	}
}

// attachable is the prefix of resources that count the volumes of a driver which a node can attach.
const attachable = "attachable-volumes-csi-"

// anyNumber of volumes: more than a node can attach.
const anyNumber = 1 << 20

// driverOf returns the driver of a claim's volume, or of the volume to be provisioned for it. It is empty for a volume
// that several nodes may use: it takes one place on a node, not one per pod.
func (v *volumes) driverOf(claim *corev1.PersistentVolumeClaim) string {
	if claim == nil || slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(claim.Spec.AccessModes, corev1.ReadOnlyMany) {
		return ""
	}
	if pv := v.bound[client.ObjectKey{Name: claim.Spec.VolumeName}]; pv != nil {
		if pv.Spec.CSI == nil {
			return ""
		}
		return pv.Spec.CSI.Driver
	}
	if class := v.classes[client.ObjectKey{Name: volume.GetPersistentVolumeClaimClass(claim)}]; class != nil {
		return class.Provisioner
	}
	return ""
}

// limit adds to nodes and templates how many volumes of each limited driver a node can attach. A template that does not
// state it gets the minimum over the pool's ready nodes.
func (v *volumes) limit(s *plan.Snapshot, ready map[string][]*plan.Node) {
	for _, driver := range v.limited {
		name := attachable + driver
		of := func(node string) int64 {
			if most, stated := v.most[nodeDriver{node, driver}]; stated {
				return most
			}
			return anyNumber
		}
		for i := range s.Nodes {
			s.Nodes[i].Others = withResource(s.Nodes[i].Others, name, of(s.Nodes[i].Name))
		}
		for i := range s.Pools {
			t, amount := &s.Pools[i].Template, int64(anyNumber)
			for _, n := range ready[s.Pools[i].Name] {
				amount = min(amount, of(n.Name))
			}
			if amountOf(t.Others, name) == 0 {
				t.Others = withResource(t.Others, name, amount)
			}
		}
	}
}

// claimOfVolume is the name of a volume's claim, empty for a volume without one.
func claimOfVolume(pod string, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil && pod != "":
		return pod + "-" + v.Name
	}
	return ""
}

// reach returns the terms of the nodes that can use a claim's volume, none for every node, or why no
// node can for now.
func (v *volumes) reach(key client.ObjectKey) (all [][]plan.NodeTerm, unbound string) {
	claim := v.claims[key]
	switch {
	case claim == nil:
		return nil, "does not exist"
	case claim.DeletionTimestamp != nil:
		return nil, "is being deleted"
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, "has lost its volume"
	case claim.Spec.VolumeName != "":
		pv := v.bound[client.ObjectKey{Name: claim.Spec.VolumeName}]
		if pv == nil {
			return nil, "is bound to PersistentVolume " + claim.Spec.VolumeName + ", which does not exist"
		}
		return volumeTerms(pv), ""
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	class := v.classes[client.ObjectKey{Name: name}]
	switch {
	case name == "":
		return nil, "is not bound to a volume, and has no StorageClass"
	case class == nil:
		return nil, "is not bound to a volume, and its StorageClass " + name + " does not exist"
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, "is not bound to a volume yet, and the volumeBindingMode of StorageClass " + name + " is Immediate"
	}
	return v.provisioned(claim, class)
}

// noProvisioner is the provisioner of classes whose volumes are made by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// provisioned is reach for a claim whose volume is chosen or provisioned once its pod has a node.
func (v *volumes) provisioned(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) ([][]plan.NodeTerm, string) {
	if node := claim.Annotations[volume.AnnSelectedNode]; node != "" { // the scheduler tries no other until provisioning has failed
		return [][]plan.NodeTerm{requiring("metadata.name", corev1.NodeSelectorOpIn, node)}, ""
	}
	var terms []plan.NodeTerm
	for _, pv := range v.free[class.Name] {
		if !suits(claim, pv) {
			continue
		}
		a := pv.Spec.NodeAffinity // the zone labels of a volume that is not bound do not count
		if a == nil || a.Required == nil {
			return nil, ""
		}
		terms = append(terms, nodeTerms(a.Required.NodeSelectorTerms)...)
	}
	switch {
	case class.Provisioner == noProvisioner && len(terms) == 0:
		return nil, "is not bound to a volume: none of StorageClass " + class.Name + " is available for it"
	case class.Provisioner == noProvisioner:
	case len(class.AllowedTopologies) == 0:
		return nil, ""
	}
	for _, t := range class.AllowedTopologies {
		var term plan.NodeTerm
		for _, e := range t.MatchLabelExpressions {
			term = append(term, plan.NodeRequirement{Key: e.Key, Operator: string(corev1.NodeSelectorOpIn), Values: e.Values})
		}
		terms = append(terms, term)
	}
	return [][]plan.NodeTerm{withZones(terms)}, ""
}

// suits reports whether a claim can be bound to an available volume of its class. It is false for an amount above an
// int64: comparing such amounts may never end.
func suits(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	have, want := pv.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if max(have.AsApproximateFloat64(), want.AsApproximateFloat64()) > math.MaxInt64 {
		return false
	}
	found, err := volume.FindMatchingVolume(claim, []*corev1.PersistentVolume{pv}, nil, nil, false, true)
	return err == nil && found != nil && volume.CheckAccessModes(claim, pv)
}

// volumeTerms is one list of terms, from a volume's node affinity or the labels that older
// provisioners give it; none where it can be used everywhere.
func volumeTerms(pv *corev1.PersistentVolume) [][]plan.NodeTerm {
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		return [][]plan.NodeTerm{withZones(nodeTerms(a.Required.NodeSelectorTerms))}
	}
	var term plan.NodeTerm
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion} {
		if value := pv.Labels[key]; value != "" {
			term = append(term, plan.NodeRequirement{Key: key, Operator: string(corev1.NodeSelectorOpIn), Values: strings.Split(value, "__")})
		}
	}
	if term == nil {
		return nil
	}
	return [][]plan.NodeTerm{withZones([]plan.NodeTerm{term})}
}

// sameAs maps a label to another one with the same value. A CSI driver sets its label on a node once it runs there, so
// the template of a new node has only Kubernetes' own label.
var sameAs = map[string]string{
	"topology.ebs.csi.aws.com/zone":                 corev1.LabelTopologyZone,
	"topology.gke.io/zone":                          corev1.LabelTopologyZone,
	"topology.disk.csi.azure.com/zone":              corev1.LabelTopologyZone,
	"topology.diskplugin.csi.alibabacloud.com/zone": corev1.LabelTopologyZone,
	"topology.cinder.csi.openstack.org/zone":        corev1.LabelTopologyZone,
	"topology.csi.vmware.com/k8s-zone":              corev1.LabelTopologyZone,
	"topology.csi.vmware.com/k8s-region":            corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone:               corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion:             corev1.LabelTopologyRegion,
}

// withZones adds to each term with a driver's label the same term with Kubernetes' own label.
func withZones(terms []plan.NodeTerm) []plan.NodeTerm {
	for _, t := range terms {
		own, differs := slices.Clone(t), false
		for i := range own {
			if key, ok := sameAs[own[i].Key]; ok {
				own[i].Key, differs = key, true
			}
		}
		if differs {
			terms = append(terms, own)
		}
	}
	return terms
}
