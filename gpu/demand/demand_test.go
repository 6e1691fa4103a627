package demand

import (
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// res parses a container's resources: "name amount name amount".
func res(t testing.TB, s string) map[string]int64 {
	t.Helper()
	list := map[string]int64{}
	words := strings.Fields(s)
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i+1], 10, 64)
		require.NoError(t, err)
		list[words[i]] = n
	}
	return list
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		list map[string]int64
		want string
	}{
		{map[string]int64{"nvidia.com/gpu": -1}, "resource nvidia.com/gpu: amount -1 is not possible"},
		{map[string]int64{"gpu.intel.com/millicores": 300}, "resource gpu.intel.com/millicores: the number of GPUs is not stated"},
		{map[string]int64{"amd.com/cpx_nps4": 1}, "resource amd.com/cpx_nps4: has an unknown size"},
		{map[string]int64{"huawei.com/npu-core": 8}, "resource huawei.com/npu-core: has an unknown size"},
		{map[string]int64{"huawei.com/Ascend910-2c-memory": 8}, "resource huawei.com/Ascend910-2c-memory: has an unknown size"},
		{map[string]int64{"elasticgpu.io/gpu-core": 250}, "resource elasticgpu.io/gpu-core: 250 hundredths of a GPU: want less than 100, or whole hundreds"},
		{map[string]int64{"volcano.sh/vgpu-number": 1, "nvidia.com/gpu": 1}, "resource volcano.sh/vgpu-number: contradicts nvidia.com/gpu: two ways to share GPUs in one container"},
		{map[string]int64{"aliyun.com/gpu-mem": math.MaxInt64}, "resource aliyun.com/gpu-mem: amount 9223372036854775807 is not possible"},
		{map[string]int64{"nvidia.com/gpu": 1, "amd.com/gpu": 1}, "resource nvidia.com/gpu: is from another vendor than amd.com/gpu"},
		{map[string]int64{"nvidia.com/gpu": 1, "aliyun.com/gpu-mem": 1}, "resource nvidia.com/gpu: contradicts aliyun.com/gpu-mem: two ways to share GPUs in one container"},
		{map[string]int64{"tencent.com/vcuda-core": 150}, "resource tencent.com/vcuda-core: 150 hundredths of a GPU: want less than 100, or whole hundreds"},
		{map[string]int64{"volcano.sh/vgpu-cores": 101}, "resource volcano.sh/vgpu-cores: more than 100 hundredths of a GPU"},
		{map[string]int64{"nvidia.com/mig-3g.40gb.shared": 1}, "resource nvidia.com/mig-3g.40gb.shared: has an unknown size"},
		{map[string]int64{"huawei.com/Ascend910-16c": 1}, "resource huawei.com/Ascend910-16c: has an unknown size"},
		{map[string]int64{"nvidia.com/gpu.shared": 1, "nvidia.com/gpumem": 1}, "resource nvidia.com/gpu.shared: cannot be divided further"},
	} {
		for range 5 { // in any order of the map
			d, err := FromResources(c.list)
			if err == nil || err.Error() != c.want || !d.Zero() {
				t.Errorf("%v: got %v, %v\nwant %s", c.list, d, err, c.want)
			}
		}
	}
}

func TestSumAndMax(t *testing.T) {
	read := func(s string) Demand {
		d, err := FromResources(res(t, s))
		require.NoError(t, err)
		return d
	}
	for _, c := range []struct{ a, b, sum, most string }{
		{"", "", "nothing", "nothing"},
		{"nvidia.com/gpu 1", "", "a GPU", "a GPU"},
		{"nvidia.com/gpu 1", "nvidia.com/gpu 2", "3 GPUs", "2 GPUs"},
		{"nvidia.com/mig-3g.40gb 1", "nvidia.com/mig-1g.10gb 1 nvidia.com/mig-3g.40gb 2", "1g.10gb + 3 × 3g.40gb", "1g.10gb + 2 × 3g.40gb"},
		{"aliyun.com/gpu-mem 2", "aliyun.com/gpu-mem 3", "5120 MiB of a GPU", "3072 MiB of a GPU"},
		{"tencent.com/vcuda-core 60", "tencent.com/vcuda-core 30", "90 % core of a GPU", "60 % core of a GPU"},
		{"tencent.com/vcuda-core 60", "tencent.com/vcuda-core 50", "60 % core of each of 2 GPUs", "60 % core of a GPU"},
		{"nvidia.com/gpu 1 nvidia.com/gpucores 60", "nvidia.com/gpu 1 nvidia.com/gpucores 60", "60 % core and 100 % memory of each of 2 GPUs", "60 % core and 100 % memory of a GPU"},
		{"aliyun.com/gpu-mem 2", "", "2048 MiB of a GPU", "2048 MiB of a GPU"},
		{"amd.com/gpu 1", "amd.com/gpu 1", "2 amd GPUs", "1 amd GPU"},
	} {
		a, b := read(c.a), read(c.b)
		for range 2 {
			if sum, err := Sum(a, b); err != nil || sum.String() != c.sum {
				t.Errorf("%s + %s: got %s, %v", c.a, c.b, sum, err)
			}
			if most, err := Max(a, b); err != nil || most.String() != c.most {
				t.Errorf("max of %s and %s: got %s, %v", c.a, c.b, most, err)
			}
			a, b = b, a
		}
		if a.String() != read(c.a).String() || b.String() != read(c.b).String() {
			t.Errorf("%s, %s: an operand changed", c.a, c.b)
		}
	}
	if _, err := Sum(read("amd.com/gpu 1"), read("nvidia.com/gpu 1")); err == nil {
		t.Error("two vendors in one pod")
	}
}

func FuzzFromResources(f *testing.F) {
	f.Add("nvidia.com/gpu", int64(1), "nvidia.com/gpumem", int64(3000))
	f.Add("nvidia.com/mig-1g.10gb.me", int64(2), "nvidia.com/gpu", int64(0))
	f.Add("huawei.com/Ascend910-16c", int64(1), "amd.com/gpu", int64(-1))
	f.Add("tencent.com/vcuda-core", int64(200), "tencent.com/vcuda-memory", int64(1<<40))
	f.Fuzz(func(t *testing.T, a string, n int64, b string, m int64) {
		list := map[string]int64{a: n, b: m}
		d, err := FromResources(list)
		if again, err2 := FromResources(maps.Clone(list)); !reflect.DeepEqual(again, d) || (err == nil) != (err2 == nil) {
			t.Fatalf("%v: %v, %v, then %v, %v", list, d, err, again, err2)
		}
		if err != nil && !d.Zero() {
			t.Fatalf("%v: %v and %v", list, d, err)
		}
		if twice, err := Sum(d, d); err != nil || twice.Zero() != d.Zero() {
			t.Fatalf("%v: %v twice is %v, %v", list, d, twice, err)
		}
	})
}
