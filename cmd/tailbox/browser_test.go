package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tailbox/tailbox/test/servers"
)

// screenshotsEnv names a folder into which the pages are drawn.
const screenshotsEnv = "TAILBOX_SCREENSHOTS"

// A chromium is a browser with one page.
type chromium struct {
	t    testing.TB
	ctx  context.Context
	base string
	axe  string
}

func (a *apiRig) chromium() *chromium {
	a.t.Helper()
	bin, err := servers.ChromiumBin()
	if err != nil {
		a.t.Skip(err)
	}
	axe, err := servers.AxeScript()
	if err != nil {
		a.t.Skip(err)
	}
	// Without its sandbox, which it refuses to make as root. It opens pages of ours alone.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(bin), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	alone, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	a.t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alone)
	a.t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // a timeout of the first call would end the browser
		a.t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	a.t.Cleanup(cancel)
	return &chromium{a.t, ctx, "http://" + a.env["ADMIN"], axe}
}

// get runs an action that has to end well, and returns its value.
func get[T any](c *chromium, what string, action chromedp.Action[T]) T {
	c.t.Helper()
	v, err := chromedp.Run(c.ctx, action)
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	return v
}

func (c *chromium) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	if err := chromedp.Do(c.ctx, actions...); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// open shows a page, by its path.
func (c *chromium) open(path string) {
	c.t.Helper()
	c.do("open "+path, chromedp.Navigate(c.base+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// press clicks a button or link by its text, and waits for the page that comes.
func (c *chromium) press(text string) {
	c.t.Helper()
	target := chromedp.Search(fmt.Sprintf(`//main//*[self::button or self::a][normalize-space()=%q]`, text))
	get(c, "press "+text, chromedp.WaitEvent(page.LoadEventFired, nil, chromedp.Click(target)))
}

// reads returns the text of the page.
func (c *chromium) reads() string {
	c.t.Helper()
	return get(c, "read the page", chromedp.Evaluate[string](`document.querySelector("main").innerText`))
}

// until waits until the page says something.
func (c *chromium) until(want string) {
	c.t.Helper()
	until(c.t, want, func() bool { return strings.Contains(c.reads(), want) })
}

// audited looks for verbs in the audit, each beside who did it.
func (c *chromium) audited(who string, verbs ...string) {
	c.t.Helper()
	c.open("/audit")
	rows := get(c, "read the audit", chromedp.Evaluate[[]string](`[...document.querySelectorAll("main tr")].map(row => row.innerText)`))
	for _, verb := range verbs {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(row, verb) && strings.Contains(row, who) }) {
			c.t.Errorf("the audit has no %s by %s: %q", verb, who, rows)
		}
	}
}

// A violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML string }
}

// inspect has axe-core look for what keeps people from using the page, at both sizes and in both schemes, and draws it.
func (c *chromium) inspect(name string) {
	c.t.Helper()
	for _, width := range []int64{1280, 360} {
		for _, scheme := range []string{"light", "dark"} {
			c.do("inspect "+name, chromedp.EmulateViewport(width, 800), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
				_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				return chromedp.Void{}, err
			})
			found := get(c, "inspect "+name, chromedp.Evaluate[[]violation](c.axe+`;
				axe.run().then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical"))`, chromedp.EvalAwaitPromise))
			for _, v := range found {
				c.t.Errorf("%s, %d px, %s: %s (%s): %s: %v", name, width, scheme, v.Help, v.ID, v.Impact, v.Nodes)
			}
			if get(c, "measure "+name, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > document.documentElement.clientWidth`)) {
				c.t.Errorf("%s, %d px, %s: the page is wider than the window", name, width, scheme)
			}
			if folder := os.Getenv(screenshotsEnv); folder != "" {
				png := get(c, "draw "+name, chromedp.FullScreenshot(100))
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	c.do("the usual size", chromedp.EmulateViewport(1280, 800))
}

// drawable waits until the charts have something to show. It is for screenshots alone: points come every five seconds.
func (c *chromium) drawable(a *apiRig) {
	c.t.Helper()
	for n := range 4 {
		for i := range 20 * (n + 1) {
			a.send("order.shipped", fmt.Sprintf("order:%d", 100+i), "{}")
		}
		until(c.t, "another point of the charts", func() bool { return len(a.ok("viewer", "GET", "/stats?minutes=60", nil).body["points"].([]any)) > n })
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.e.types = nil // the test looks at what comes now
}

// From an empty browser to a delivered dead letter, in a real browser: each page at two sizes, light and dark, without what keeps people from using it.
func TestConsoleInChromium(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	c := a.chromium()
	bad := a.send("order.placed", "order:1", `{"x": "bad", "name": "<img src=x onerror=document.title='run'><script>document.title='run'</script>"}`)
	a.send("order.paid", "order:1", `{"order": 1}`)
	a.send("order.placed", "order:2", `{"x": "bad"}`)
	until(t, "dead letters and one that waits", func() bool {
		states := a.parkedStates()
		return states["dead"] == 2 && states["waiting"] == 1
	})
	c.open("/")
	c.inspect("login")
	c.do("log in", chromedp.SendKeys(chromedp.CSS("#token"), tokenOf("operator")))
	c.press("Log in")
	c.until("2 dead letters at api.")
	if os.Getenv(screenshotsEnv) != "" {
		c.drawable(a)
	}
	for name, path := range map[string]string{"overview": "/", "failures": "/failures", "deliveries": "/deliveries?state=dead&state=waiting", "message": "/messages/" + bad, "groups": "/groups",
		"sinks": "/sinks", "source": "/source?check=true", "audit": "/audit", "configuration": "/config"} {
		c.open(path)
		c.inspect(name)
	}
	c.open("/messages/" + bad)
	if title := get(c, "read the title", chromedp.Title()); !strings.HasPrefix(title, "Message "+bad) {
		t.Errorf("a payload ran in the page: %q", title)
	}

	// Edit the one message.
	c.do("open the form", chromedp.Click(chromedp.CSS("details summary")), chromedp.SetValue(chromedp.CSS("textarea[name=payload]"), `{"x": "good"}`))
	c.press("Show the change …")
	c.inspect("edit")
	c.do("say why", chromedp.SendKeys(chromedp.CSS("input[name=why]"), "TICKET-7"))
	c.press("Change and replay")
	c.until("1 changed")
	until(t, "the group goes on", func() bool { return a.e.got() == "order.placed order.paid" })

	// Replay the other one, which its endpoint takes now, from the group of its failure.
	a.e.forgive()
	until(t, "a failure of one delivery", func() bool { // what was counted may be 10 s old
		c.open("/failures")
		return get(c, "look for it", chromedp.Evaluate[bool](`[...document.querySelectorAll("main td a")].some(a => a.textContent == "1")`))
	})
	c.press("1")
	c.press("Replay …")
	c.inspect("dry-run")
	c.press("Replay")
	c.until("1 changed")
	c.inspect("request")
	until(t, "the dead letter is delivered", func() bool { return a.e.got() == "order.placed order.paid order.placed" })
	c.open("/audit")
	if text := c.reads(); !strings.Contains(text, "olga") || !strings.Contains(text, "TICKET-7") {
		t.Errorf("the audit does not name who did it: %s", text)
	}

	// Hold, resume, pause and resume.
	c.open("/groups")
	c.do("name a group", chromedp.SendKeys(chromedp.CSS("form.card input[name=groups]"), "order:3"))
	c.press("Hold")
	c.until("1 changed")
	c.open("/groups")
	c.inspect("groups-held")
	c.press("resume")
	c.until("1 changed")
	c.open("/sinks")
	c.press("pause")
	c.until("Done")
	c.open("/")
	c.until("Sink api is paused by an operator.")
	c.open("/sinks")
	c.press("resume")
	c.until("Done")

	// Deliveries appear as they happen.
	c.open("/live?group=order:5")
	c.until("Deliveries appear here as they happen.")
	live := a.send("order.placed", "order:5", `{"live": "<b>yes</b>"}`)
	c.until(live)
	c.until(`{"live": "<b>yes</b>"}`)
	c.inspect("live")
	c.do("stop", chromedp.Click(chromedp.CSS("#live-stop")))
	c.until("Stopped.")

	// Skip and drop.
	a.e.refuse()
	a.send("order.placed", "order:4", `{"x": "bad"}`)
	until(t, "a dead letter", func() bool { return a.parkedStates()["dead"] == 1 })
	c.open("/groups")
	c.press("skip")
	c.until("1 changed")
	c.open("/deliveries")
	c.press("Drop …")
	c.inspect("drop")
	c.do("say why", chromedp.SendKeys(chromedp.CSS("input[name=why]"), "a test"))
	c.press("Drop them for good")
	c.until("1 changed")
	c.audited("olga", "edit", "replay", "hold", "resume", "pause", "skip", "drop")
	c.open("/")
	c.until("All is well")
	c.inspect("well")
}
