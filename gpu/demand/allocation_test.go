package demand

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mainAndSide are containers, of which main requests GPU memory.
var mainAndSide = []Container{{Name: "main", Resources: []string{"cpu", gpushareMemory}}, {Name: "side", Resources: []string{"cpu"}}}

func TestFromAnnotations(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        []string // "container device"
		err         string
	}{
		"none":                      {map[string]string{"a": "b"}, nil, ""},
		"gpushare":                  {map[string]string{gpushareIndex: "1", gpushareAssigned: "true"}, []string{"main 1"}, ""},
		"gpushare not assigned yet": {map[string]string{gpushareIndex: "1", gpushareAssigned: "false"}, nil, ""},
		"gpushare without a GPU":    {map[string]string{gpushareIndex: "-1", gpushareAssigned: "true"}, nil, `ALIYUN_COM_GPU_MEM_IDX: "-1" is not a GPU index`},
		"gpushare, several GPUs":    {map[string]string{gpushareAllocation: `{"0":{"0":3,"2":1},"1":{"1":1}}`}, []string{"main 0", "main 2", "side 1"}, ""},
		"gpushare, broken":          {map[string]string{gpushareAllocation: `{"0":3}`}, nil, gpushareAllocation},
		"gpushare, container 9":     {map[string]string{gpushareAllocation: `{"9":{"0":3}}`}, nil, "container 9, the pod has 2"},
		"HAMi": {map[string]string{"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,4000,30:GPU-b,NVIDIA,4000,30:;GPU-c,NVIDIA,1,1:;"},
			[]string{"main GPU-a", "main GPU-b", "side GPU-c"}, ""},
		"HAMi, first container without": {map[string]string{"hami.io/vgpu-devices-allocated": ";GPU-c,NVIDIA,1,1:;"}, []string{"side GPU-c"}, ""},
		"HAMi, broken":                  {map[string]string{"hami.io/vgpu-devices-allocated": "GPU-a"}, nil, `"GPU-a" is not "UUID,type,memory,cores"`},
		"volcano":                       {map[string]string{"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,30:"}, []string{"main GPU-a"}, ""},
		"Elastic GPU":                   {map[string]string{"elasticgpu.io/container-side": "0,3", "elasticgpu.io/assumed": "true"}, []string{"side 0", "side 3"}, ""},
		"Elastic GPU, not assumed":      {map[string]string{"elasticgpu.io/container-side": "0,3"}, nil, ""},
		"nano-gpu":                      {map[string]string{"nano-gpu/container-main": "1", "nano-gpu/assume": "true"}, []string{"main 1"}, ""},
		"vCUDA":                         {map[string]string{vcudaIndex + "0": "1", vcudaIndex + "1": "0,2", vcudaAssigned: "true"}, []string{"main nvidia1", "side nvidia0", "side nvidia2"}, ""},
		"vCUDA, not assigned":           {map[string]string{vcudaIndex + "0": "1"}, nil, ""},
		"vCUDA, broken":                 {map[string]string{vcudaIndex + "0": "one", vcudaAssigned: "true"}, nil, `"one" is not a GPU index`},
	} {
		all, err := FromAnnotations(c.annotations, mainAndSide)
		var got []string
		for _, a := range all {
			got = append(got, mainAndSide[a.Container].Name+" "+a.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: err = %v, want %q", name, err, c.err)
		}
	}
}

// HAMi 2.9 and newer list a pod's init container first; older versions do not list it (pkg/device/devices.go,
// Resourcereqs).
func TestHAMiInitContainers(t *testing.T) {
	containers := append(slices.Clone(mainAndSide), Container{Name: "init", Init: true})
	for text, want := range map[string]string{
		";GPU-a,NVIDIA,1,1:;;":                  "[{0 GPU-a }]",
		"GPU-b,NVIDIA,1,1:;;GPU-a,NVIDIA,1,1:;": "[{2 GPU-b } {1 GPU-a }]",
		"GPU-a,NVIDIA,1,1:;;":                   "[{0 GPU-a }]",
	} {
		if got, err := FromAnnotations(map[string]string{uuidLists[0]: text}, containers); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
}

// A pod on MIG instances, as HAMi 2.10 annotates it: before its last instance is made, and with an init container.
func TestHAMiMIG(t *testing.T) {
	containers := append(slices.Clone(mainAndSide), Container{Name: "init", Init: true})
	annotations := map[string]string{
		uuidLists[0]: "GPU-a,NVIDIA,5120,0:;GPU-a,NVIDIA,5120,0:GPU-b,NVIDIA,10240,0:;GPU-b,NVIDIA,5120,0:;",
		hamiMIG: `[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":6,"size":1},"migUUID":"MIG-1","gpuInstanceID":13,"computeInstanceID":0},
			{"containerIndex":1,"deviceIndex":1,"gpuUUID":"GPU-b","profile":"2g.10gb","placement":{"start":0,"size":2},"migUUID":"MIG-2","gpuInstanceID":3,"computeInstanceID":0},
			{"containerIndex":2,"deviceIndex":0,"gpuUUID":"GPU-b","profile":"1g.5gb","placement":{"start":2,"size":1}}]`,
	}
	got, err := FromAnnotations(annotations, containers)
	if want := "[{2 GPU-a MIG-1} {0 GPU-a } {0 GPU-b MIG-2} {1 GPU-b }]"; fmt.Sprint(got) != want || err != nil {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	annotations[hamiMIG] = "[{]"
	if _, err := FromAnnotations(annotations, containers); err == nil || !strings.Contains(err.Error(), hamiMIG) {
		t.Errorf("a list that cannot be read: %v", err)
	}
}

func FuzzFromAnnotations(f *testing.F) {
	f.Add("1", `{"0":{"0":3}}`, "GPU-a,NVIDIA,1,1:;", "0,1")
	f.Add("-1", `{`, ",:;;", ",")
	f.Fuzz(func(t *testing.T, index, allocation, uuids, list string) {
		for _, annotations := range []map[string]string{
			{gpushareIndex: index, gpushareAssigned: "true"}, {gpushareAllocation: allocation},
			{"hami.io/vgpu-devices-allocated": uuids, hamiMIG: allocation}, {vcudaIndex + "1": list, vcudaAssigned: "true"},
		} {
			all, err := FromAnnotations(annotations, mainAndSide)
			for _, a := range all {
				if a.ID == "" || a.Container < 0 || a.Container > 1 {
					t.Fatalf("%v: %+v", annotations, a)
				}
			}
			if err != nil && !strings.HasPrefix(err.Error(), "annotation ") {
				t.Fatalf("%v: %v names no annotation", annotations, err)
			}
		}
	})
}
