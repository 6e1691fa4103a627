package demand

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		model, resources string
		want             quota.Amount
	}{
		{"H100-80GB", "", quota.Amount{}},
		{"H100-80GB", "nvidia.com/gpu 2", quota.Amount{Compute: 14, Memory: 16}},
		{"A30-24GB", "nvidia.com/gpu 2", quota.Amount{Compute: 8, Memory: 8}},
		{"L40S", "nvidia.com/gpu 2", quota.Amount{Compute: 14, Memory: 16}},
		{"H100-80GB", "nvidia.com/mig-3g.40gb 2", quota.Amount{Compute: 6, Memory: 8}},
		{"H100-80GB", "nvidia.com/mig-1g.20gb 3 nvidia.com/mig-1g.10gb.me 1", quota.Amount{Compute: 4, Memory: 7}},
		{"RTX-PRO-6000-Blackwell-96GB", "nvidia.com/mig-2g.48gb 1", quota.Amount{Compute: 2, Memory: 6}},
		{"GB200-186GB", "nvidia.com/mig-3g.95gb 1", quota.Amount{Compute: 3, Memory: 4}},
		{"L40S", "nvidia.com/gpu.shared 1", quota.Amount{Compute: 1, Memory: 1}},
		{"L40S", "tke.cloud.tencent.com/qgpu-core 50 tke.cloud.tencent.com/qgpu-memory 4", quota.Amount{Compute: 4, Memory: 1}},
		{"L40S", "aliyun.com/gpu-mem 22", quota.Amount{Compute: 4, Memory: 4}}, // memory alone counts for both
		{"L40S", "tencent.com/vcuda-core 50", quota.Amount{Compute: 4, Memory: 4}},
		{"L40S", "nvidia.com/gpu 2 nvidia.com/gpumem-percentage 50 nvidia.com/gpucores 10", quota.Amount{Compute: 2, Memory: 8}},
		{"H100-80GB", "aliyun.com/gpu-mem 20", quota.Amount{Compute: 2, Memory: 3}}, // 0.2511 of a card
		{"T4", "volcano.sh/vgpu-number 1 volcano.sh/vgpu-memory 15360", quota.Amount{Compute: 7, Memory: 8}},
	} {
		d, err := FromResources(res(t, c.resources))
		if err != nil {
			t.Fatal(err)
		}
		model, _ := gpu.ParseProduct(c.model)
		table, _ := mig.ForModel(c.model)
		if got, err := d.Amount(model, table); err != nil || got != c.want {
			t.Errorf("%s on %s: got %v, %v, want %v", d, c.model, got, err, c.want)
		}
	}
}

func TestAmountSaysWhatIsNotKnown(t *testing.T) {
	for _, c := range []struct{ model, resources, want string }{
		{"L40S", "nvidia.com/mig-3g.40gb 1", "3g.40gb: L40S has no MIG"},
		{"A100-40GB", "nvidia.com/mig-3g.40gb 1", "3g.40gb: no profile of A100-40GB"},
		{"", "aliyun.com/gpu-mem 20", "20480 MiB of a card: a card nobody told us about: how much memory the card has is not known"},
		{"T4", "aliyun.com/gpu-mem 20", "20480 MiB of a card: T4: the card has 15360 MiB"},
	} {
		d, err := FromResources(res(t, c.resources))
		if err != nil {
			t.Fatal(err)
		}
		model, _ := gpu.ParseProduct(c.model)
		table, _ := mig.ForModel(c.model)
		if got, err := d.Amount(model, table); err == nil || !strings.Contains(err.Error(), c.want) || !got.Zero() {
			t.Errorf("%s on %s: got %v, %v, want %s", d, c.model, got, err, c.want)
		}
	}
}

// Whatever a card is cut into, pods that hold all of it count no more than one that
// holds the card: on every product, for every layout.
func TestNoLayoutCountsMoreThanTheCard(t *testing.T) {
	for _, name := range mig.Models() {
		model, _ := gpu.ParseProduct(name)
		table, _ := mig.ForModel(name)
		card, err := Demand{Cards: 1}.Amount(model, table)
		if err != nil {
			t.Fatal(err)
		}
		for _, layout := range table.Maximal() {
			list := map[string]int64{}
			for _, p := range layout {
				list[mig.ResourceName(table.Name(p.Profile))]++
			}
			d, err := FromResources(list)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Amount(model, table)
			compute, memory := table.Room(layout)
			stranded := quota.Amount{Compute: int64(compute), Memory: int64(memory)}
			if err != nil || got.Add(stranded) != card {
				t.Fatalf("%s, %s: %v and stranded %v of %v, %v", name, table.Format(layout), got, stranded, card, err)
			}
		}
	}
}
