package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/source/store/view"
)

// failuresAnswer is what the API counts.
type failuresAnswer struct {
	Failures []view.Failure `json:"failures"`
	AsOf     time.Time      `json:"as_of"`
	Partial  bool           `json:"partial"`
}

// A cause is what failures can be grouped by, by the API's name.
type cause struct{ name, title string }

func causes() []cause { return []cause{{"class", "Error"}, {"type", "Type"}, {"sink", "Sink"}} }

func (v *visit) failuresPage() {
	by := v.picked("by")["by"]
	if len(by) == 0 {
		by = []string{"class", "type", "sink"}
	}
	var found failuresAnswer
	if err := v.get("/deliveries/summary", url.Values{"by": {strings.Join(by, ",")}}, &found); err != nil {
		v.failed(err)
		return
	}
	content := []g.Node{h.Form(h.Class("filters"), h.Method("get"), h.Action("/failures"),
		h.FieldSet(h.Legend(g.Text("Group by")), g.Group(groupBoxes(by))), h.Button(g.Text("Group")))}
	if len(found.Failures) == 0 {
		content = append(content, h.P(h.Class("well"), g.Text("There are no dead letters.")))
	} else {
		content = append(content, found.table(by))
	}
	v.show("Failures", append(content, found.counted())...)
}

func groupBoxes(by []string) (boxes []g.Node) {
	for _, c := range causes() {
		boxes = append(boxes, h.Label(h.Input(h.Type("checkbox"), h.Name("by"), h.Value(c.name), g.If(slices.Contains(by, c.name), h.Checked())), g.Text(" "+strings.ToLower(c.title)+" ")))
	}
	return boxes
}

// counted says what the numbers are worth.
func (a *failuresAnswer) counted() g.Node {
	return h.P(h.Class("hint"), g.Text("Counted "), ago(a.AsOf), g.Text("."),
		g.If(a.Partial, g.Text(" There is more than was counted: these are the newest 250,000 dead letters, and the 500 largest groups.")))
}

// table shows failures that are grouped by some causes.
func (a *failuresAnswer) table(by []string) g.Node {
	columns := []string{"Dead"}
	for _, c := range causes() {
		if slices.Contains(by, c.name) {
			columns = append(columns, c.title)
		}
	}
	rows := make([]g.Node, len(a.Failures))
	for i := range a.Failures {
		f := &a.Failures[i]
		var of g.Group
		var names []string
		add := func(name *string, shown string, more g.Node) {
			if name != nil {
				of, names = append(of, cell(g.Text(shown), more)), append(names, shown)
			}
		}
		why, example := "", g.Node(g.Text("none"))
		if f.Example != nil {
			why, example = f.Example.LastError, messageLink(f.Example)
		}
		add(f.Class, orText(f.Class), small(why))
		add(f.Type, orText(f.Type), nil)
		add(f.Sink, sinkName(orText(f.Sink)), nil)
		open := h.A(h.Href(deliveriesOf(f)), h.Aria("label", count(f.Count, "dead letter", "dead letters")+": "+strings.Join(names, ", ")), g.Text(strconv.Itoa(f.Count)))
		rows[i] = h.Tr(cell(open), of, cell(ago(f.FirstSeen)), cell(ago(f.LastSeen)), cell(example))
	}
	return table("Failures", append(columns, "First seen", "Last seen", "Example"), rows...)
}

// deliveriesOf is the address of a group's deliveries.
func deliveriesOf(f *view.Failure) string {
	unrouted := ""
	if f.Sink != nil && *f.Sink == "" {
		unrouted = "true"
	}
	return "/deliveries" + query("class", orText(f.Class), "type", view.TypeOf(f), "sink", orText(f.Sink), "unrouted", unrouted)
}

func orText(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// deadByCause shows on the overview why dead letters are dead.
func (v *visit) deadByCause(p *pipelineAnswer) g.Node {
	dead := 0
	for i := range p.Status.Sinks {
		dead += p.Status.Sinks[i].Dead
	}
	if dead == 0 {
		return nil
	}
	by := []string{"class", "sink"}
	var found failuresAnswer
	var content g.Group
	if err := v.get("/deliveries/summary", url.Values{"by": {strings.Join(by, ",")}}, &found); err != nil {
		content = g.Group{problem("They could not be counted: " + err.Error())} // the rest of the page says what is wrong all the same
	} else {
		content = g.Group{g.If(len(found.Failures) > 0, found.table(by)), found.counted(), h.P(link("/failures", "All failures"))}
	}
	return section("causes", "Dead letters by cause", content)
}
