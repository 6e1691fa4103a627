package forecast

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	fourierRows  = 504  // most rows of one fit; with more cells, neighbours share a row
	fourierFits  = 6    // fits spread over the origins; the last origin has its own
	fourierRidge = 1e-3 // pulls to zero the waves that the known cells do not determine
	fourierKeep  = 0.3  // weight of the newest cell in the lasting residual
	huberPasses  = 3    // most repetitions of one fit
	huberEdge    = 6.0  // residuals up to this many medians (four standard deviations) are not outliers
)

// waves is a regression on a straight line and on sines and cosines. The latest
// residual is carried into the forecast as far as such residuals have lasted
// before. Gaps only mean fewer rows.
type waves struct {
	periods   []time.Duration
	harmonics int // of each period
}

func (w waves) run(g *grid, ks, origins []int) [][]float64 {
	out := unknownRows(len(ks), len(origins))
	basis := w.table(g)
	block := max(1, (len(origins)+fourierFits-1)/fourierFits)
	for from := 0; from < len(origins); from += block {
		to := min(from+block, len(origins))
		w.fitAndRun(g, basis, ks, origins[from:to], out, from)
		if to == len(origins) && to-from > 1 {
			w.fitAndRun(g, basis, ks, origins[to-1:], out, to-1)
		}
	}
	return out
}

// fitAndRun fits on what was known at the first of origins, and forecasts from
// all of them.
func (w waves) fitAndRun(g *grid, basis *mat.Dense, ks, origins []int, out [][]float64, at int) {
	upto := origins[0]
	coef := w.fit(g, basis, upto)
	if coef == nil {
		return
	}
	end := origins[len(origins)-1]
	left, lasting := residuals(g, basis, coef, end)
	row := make([]float64, len(coef))
	for h, k := range ks {
		keep := lasts(left[:upto+1], lasting, k)
		for o, i := range origins {
			if math.IsNaN(lasting[i]) {
				continue
			}
			w.row(row, float64(i+k), g.cell, len(g.mean))
			out[h][at+o] = floats.Dot(row, coef) + keep*lasting[i]
		}
	}
}

// table is the basis of every cell.
func (w waves) table(g *grid) *mat.Dense {
	n, p := len(g.mean), 2+2*len(w.periods)*w.harmonics
	t := mat.NewDense(n, p, nil)
	for i := range n {
		w.row(t.RawRowView(i), float64(i), g.cell, n)
	}
	return t
}

// row fills in the basis at cell i, which may be fractional.
func (w waves) row(row []float64, i float64, cell time.Duration, n int) {
	row[0], row[1] = 1, i/float64(n)
	c := 2
	for _, p := range w.periods {
		sin, cos := math.Sincos(2 * math.Pi * math.Mod(i*float64(cell)/float64(p), 1))
		s, t := sin, cos
		for range w.harmonics {
			row[c], row[c+1] = s, t
			s, t = s*cos+t*sin, t*cos-s*sin
			c += 2
		}
	}
}

// fit returns the coefficients of a regression on cells 0 … upto, or nil where
// too few are known. Where there are many cells, neighbours share a row. Outliers get less
// weight and the fit is repeated (Huber), so that a lost afternoon does not bend the wave.
func (w waves) fit(g *grid, basis *mat.Dense, upto int) []float64 {
	_, p := basis.Dims()
	per := upto/fourierRows + 1
	a := mat.NewDense(upto/per+1, p, nil)
	y := make([]float64, upto/per+1)
	n := 0
	for from := 0; from <= upto; from += per {
		if y[n] = pool(a.RawRowView(n), g, basis, from, min(from+per, upto+1)); !math.IsNaN(y[n]) {
			n++
		}
	}
	if n < 2*p {
		return nil
	}
	weights := slices.Repeat([]float64{1}, n)
	var coef []float64
	for range huberPasses {
		if coef = ridge(a, y[:n], weights); coef == nil {
			return nil
		}
		if !huber(weights, a, y, coef) {
			break
		}
	}
	return coef
}

// pool makes one row of the known cells from … to-1, and returns their mean;
// NaN, and a row of zeros, for none.
func pool(row []float64, g *grid, basis *mat.Dense, from, to int) float64 {
	clear(row)
	m := mean{at: math.NaN()}
	for i := from; i < to; i++ {
		if y := g.mean[i]; !math.IsNaN(y) {
			m.add(y)
			floats.Add(row, basis.RawRowView(i))
		}
	}
	floats.Scale(1/max(m.n, 1), row)
	return m.at
}

// ridge solves the weighted regression by QR, or returns nil.
func ridge(a *mat.Dense, y, weights []float64) []float64 {
	n := len(y)
	_, p := a.Dims()
	rows := mat.NewDense(n+p-1, p, nil)
	right := mat.NewVecDense(n+p-1, nil)
	for i, weight := range weights {
		root, row := math.Sqrt(weight), rows.RawRowView(i)
		for c, x := range a.RawRowView(i) {
			row[c] = root * x
		}
		right.SetVec(i, root*y[i])
	}
	for c := 1; c < p; c++ { // the level itself is not pulled
		rows.Set(n+c-1, c, math.Sqrt(fourierRidge*float64(n)))
	}
	var qr mat.QR
	qr.Factorize(rows)
	coef := mat.NewVecDense(p, nil)
	if qr.SolveVecTo(coef, false, right) != nil {
		return nil
	}
	return coef.RawVector().Data
}

// huber sets the weight of each row by its residual, and reports whether any is
// an outlier.
func huber(weights []float64, a *mat.Dense, y, coef []float64) bool {
	off := make([]float64, len(weights))
	for i := range off {
		off[i] = math.Abs(y[i] - floats.Dot(a.RawRowView(i), coef))
	}
	edge := huberEdge * slices.Sorted(slices.Values(off))[len(off)/2]
	some := false
	for i, r := range off {
		if weights[i] = 1; r > edge {
			weights[i], some = edge/r, true
		}
	}
	return some && edge > 0
}

// residuals returns the residuals of cells 0 … end, and at each of them the
// lasting part: an exponentially weighted mean of the known ones.
func residuals(g *grid, basis *mat.Dense, coef []float64, end int) (left, lasting []float64) {
	left, lasting = unknowns(end+1), unknowns(end+1)
	keep := math.NaN()
	for i := range left {
		if y := g.mean[i]; !math.IsNaN(y) {
			left[i] = y - floats.Dot(basis.RawRowView(i), coef)
			if math.IsNaN(keep) {
				keep = left[i]
			}
			keep += fourierKeep * (left[i] - keep)
		}
		lasting[i] = keep
	}
	return left, lasting
}

// lasts returns how much of a lasting residual remained k cells later, 0 … 1.
func lasts(left, lasting []float64, k int) float64 {
	var xy, xx float64
	for i := 0; i < len(left)-k; i++ {
		if p := left[i+k] * lasting[i]; !math.IsNaN(p) {
			xy += p
			xx += lasting[i] * lasting[i]
		}
	}
	if xx == 0 {
		return 0
	}
	return min(1, max(0, xy/xx))
}
