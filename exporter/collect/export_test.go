package collect

// FixedLabels are for the golden test.
var FixedLabels = fixedLabels
