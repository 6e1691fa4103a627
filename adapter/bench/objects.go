package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// born is the creation time of all objects.
var born = metav1.NewTime(time.Unix(1_790_000_000, 0))

// managed is the managedFields of each object: larger than all other metadata,
// and not read by adapters.
func managed() []metav1.ManagedFieldsEntry {
	var fields strings.Builder
	fields.WriteString(`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:model":{},"f:pod-template-hash":{}},"f:ownerReferences":{}},"f:spec":{"f:containers":{"k:{\"name\":\"server\"}":{`)
	for i := range 40 {
		fmt.Fprintf(&fields, `"f:setting%02d":{},`, i)
	}
	fields.WriteString(`"f:image":{}}}}}`)
	entry := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &born,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields.String()),
		}
	}
	return []metav1.ManagedFieldsEntry{entry("kube-controller-manager"), entry("kubelet")}
}

// podMeta is the metadata of a workload's nth pod.
func (f fleet) podMeta(workload, n int) metav1.ObjectMeta {
	id := workload*podsPerWorkload + n
	yes := true
	return metav1.ObjectMeta{
		Name: pod(workload, n), GenerateName: replicaSet(workload) + "-", Namespace: f.namespace(workload),
		UID: types.UID(uid('p', id)), ResourceVersion: fmt.Sprint(1000 + id), CreationTimestamp: born, Labels: podLabels(workload),
		Annotations: map[string]string{
			"cni.projectcalico.org/podIP": "10.0.0.1/32", "kubernetes.io/config.seen": "2026-11-20T00:00:00Z", "prometheus.io/scrape": "true",
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet(workload), UID: types.UID(uid('r', workload)),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
		ManagedFields: managed(),
	}
}

func (f fleet) replicaSetMeta(workload int) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: replicaSet(workload), Namespace: f.namespace(workload), UID: types.UID(uid('r', workload)),
		ResourceVersion: fmt.Sprint(1000 + workload), CreationTimestamp: born, Labels: podLabels(workload),
		Annotations: map[string]string{"deployment.kubernetes.io/desired-replicas": "10", "deployment.kubernetes.io/revision": "1"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: app(workload), UID: types.UID(uid('d', workload)), Controller: &yes,
		}},
		ManagedFields: managed(),
	}
}

// wholePods is a LIST of one workload's pods as JSON, of the size that model
// servers' pods have.
func (f fleet) wholePods(workload int) []byte {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1000000"}}
	for n := range podsPerWorkload {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: f.podMeta(workload, n), Spec: podSpec(), Status: podStatus()})
	}
	out, err := json.Marshal(list)
	if err != nil {
		panic("a pod that cannot be written: " + err.Error())
	}
	return out
}

func podSpec() corev1.PodSpec {
	var env []corev1.EnvVar
	for i := range 12 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: "a value of usual length"})
	}
	return corev1.PodSpec{
		NodeName: "node-00001", ServiceAccountName: "default", SchedulerName: "default-scheduler", RestartPolicy: corev1.RestartPolicyAlways,
		Containers: []corev1.Container{{
			Name: "server", Image: "vllm/vllm-openai:v0.32.0", Args: []string{"--model", "/models/llama", "--port", "8000"}, Env: env,
			Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8000, Protocol: corev1.ProtocolTCP}},
			VolumeMounts: []corev1.VolumeMount{{Name: "models", MountPath: "/models"}},
		}},
		Volumes: []corev1.Volume{{Name: "models", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}

func podStatus() corev1.PodStatus {
	var conditions []corev1.PodCondition
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		conditions = append(conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: born})
	}
	return corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: conditions, HostIP: "192.168.0.1", PodIP: "10.0.0.1", StartTime: &born,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "server", Ready: true, Image: "vllm/vllm-openai:v0.32.0", ContainerID: "containerd://" + uid('c', 1)}},
	}
}
