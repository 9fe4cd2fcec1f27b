package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// chart draws comparable figures as bars on one scale.
type chart struct {
	name  string // of the file, without .svg
	title string
	unit  string // of the figures, and which way is better
	bars  []bar
}

// bar is the median of a figure, and the least and most over the rounds.
type bar struct {
	name                string
	ours                bool // informd's
	value, least, most  float64
	measured, hasSpread bool
}

func barOf[T any](name string, ours bool, all []T, of func(T) float64) bar {
	values := sorted(all, of)
	if len(values) == 0 {
		return bar{name: name, ours: ours}
	}
	return bar{
		name: name, ours: ours, value: median(all, of),
		least: values[0], most: values[len(values)-1],
		measured: true, hasSpread: values[0] < values[len(values)-1],
	}
}

// The layout of a drawing, in pixels.
const (
	chartWidth = 760
	barsBegin  = 290 // to the right of the names
	barsEnd    = 640 // values follow
	barHeight  = 18
	rowHeight  = 30
	headHeight = 62
)

// svg draws the chart. It has its own background, and colors for light and dark surroundings.
func (c chart) svg() string {
	height := headHeight + rowHeight*len(c.bars) + 12
	most := 0.0
	for _, b := range c.bars {
		most = max(most, b.most)
	}
	x := func(value float64) float64 {
		if most == 0 {
			return barsBegin
		}
		return barsBegin + value/most*(barsEnd-barsBegin)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg"`+
		` width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<style>
  .back { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328 } .faint { fill: #59636e }
  .ours { fill: #0969da } .other { fill: #9ea7b1 } .spread { stroke: #1f2328; stroke-width: 1.5; opacity: .65 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .title { font-size: 15px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117; stroke: #3d444d } .text { fill: #f0f6fc } .faint { fill: #9198a1 }
    .ours { fill: #4493f8 } .other { fill: #656c76 } .spread { stroke: #f0f6fc }
  }
</style>
<rect class="back" x=".5" y=".5" width="%[4]d" height="%[5]d" rx="6"/>
<text class="text title" x="16" y="26">%[3]s</text>
<text class="faint" x="16" y="46">%[6]s</text>
`, chartWidth, height, html.EscapeString(c.title), chartWidth-1, height-1,
		html.EscapeString(c.unit+". Medians; a line goes from the least to the most."))
	for i, b := range c.bars {
		top := headHeight + i*rowHeight
		middle, base := float64(top)+barHeight/2, top+barHeight-4
		fmt.Fprintf(&s, `<text class="text" x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			barsBegin-10, base, html.EscapeString(b.name))
		if !b.measured {
			fmt.Fprintf(&s, `<text class="faint" x="%d" y="%d">not measured</text>`+"\n",
				barsBegin, base)
			continue
		}
		class := "other"
		if b.ours {
			class = "ours"
		}
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n",
			class, barsBegin, top, max(1, x(b.value)-barsBegin), barHeight)
		if b.hasSpread {
			fmt.Fprintf(&s, `<path class="spread" d="M%.1f %.1fH%.1f`+
				`M%[1]f %[4]fv8M%[3]f %[4]fv8" fill="none"/>`+"\n",
				x(b.least), middle, x(b.most), middle-4)
		}
		fmt.Fprintf(&s, `<text class="text" x="%.1f" y="%d">%s</text>`+"\n",
			x(b.most)+8, base, rounded(b.value))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// rounded returns a value with as many digits as a reader needs, and commas between thousands.
func rounded(value float64) string {
	switch {
	case value < 1:
		return fmt.Sprintf("%.2f", value)
	case value < 100:
		return fmt.Sprintf("%.1f", value)
	}
	text := fmt.Sprintf("%.0f", value)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// writeCharts writes the charts into the folder beside the document that has the document's name,
// and returns the Markdown that shows them.
func writeCharts(document string, charts []chart) (string, error) {
	folder := strings.TrimSuffix(document, filepath.Ext(document))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range charts {
		path := filepath.Join(folder, c.name+".svg")
		if err := os.WriteFile(path, []byte(c.svg()), 0o644); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "![%s](%s/%s.svg)\n\n", c.title, filepath.Base(folder), c.name)
	}
	return b.String(), nil
}
