package hostile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
)

// lies are what servers of a kind do.
func lies(sink string) map[string]lie {
	switch sink {
	case "http":
		return httpLies()
	case "kafka":
		return kafkaLies()
	case "nats":
		return natsLies()
	}
	return smtpLies()
}

const sshGreeting = "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"

func httpLies() map[string]lie {
	all := map[string]lie{
		"slow-headers":    slow("HTTP/1.1 200 OK\r\nX-Slow: " + strings.Repeat("a", 10_000)),
		"huge-header":     endless("HTTP/1.1 200 OK\r\nX-Huge: ", "a"),
		"many-headers":    endless("HTTP/1.1 200 OK\r\n", "X-Many: 1\r\n"),
		"early-hints":     endless("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"),
		"huge-length":     silent("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9223372036854775807\r\n\r\nx"),
		"huge-chunk":      silent("HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
		"endless-body":    endless("HTTP/1.1 503 Service Unavailable\r\n\r\n", "busy "),
		"wrong-protocol":  closing(sshGreeting),
		"half-an-answer":  silent("HTTP/1.1 2"),
		"refuses-all":     closing("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
		"refuses-praises": closing("HTTP/1.1 500 OK\r\nConnection: close\r\nContent-Length: 22\r\n\r\n{\"status\":\"delivered\"}"),
		"hangs-up":        closing(""),
	}
	for name, lie := range all {
		all[name] = first(lie)
	}
	return all
}

func smtpLies() map[string]lie {
	greet, hello := "220 mail.example.org\r\n", "250-mail.example.org\r\n250 8BITMIME\r\n"
	return map[string]lie{
		"slow-greeting":    slow("220-" + strings.Repeat("a", 10_000)),
		"huge-line":        endless("220 ", "a"),
		"endless-greeting": endless("", "220-hello\r\n"),
		"endless-hello":    endless(greet, "250-PIPELINING\r\n"),
		"huge-size":        talk(greet, map[string]string{"EHLO": "250-mail.example.org\r\n250 SIZE 99999999999999999999999999\r\n", "MAIL": "451 later\r\n", "RSET": "250 yes\r\n"}),
		"wrong-protocol":   closing(sshGreeting),
		"half-an-answer":   talk(greet, map[string]string{"EHLO": "25"}),
		"refuses-all":      talk(greet, map[string]string{"EHLO": hello, "MAIL": "421 4.3.2 shutting down\r\n"}),
		"refuses-praises":  talk(greet, map[string]string{"EHLO": hello, "MAIL": "250 yes\r\n", "RCPT": "450 4.2.1 not now\r\n", "DATA": "354 go on\r\n", ".\r\n": "250 kept\r\n", "RSET": "250 yes\r\n"}),
		"hangs-in-data":    talk(greet, map[string]string{"EHLO": hello, "MAIL": "250 yes\r\n", "RCPT": "250 yes\r\n", "DATA": "354 go on\r\n"}),
		"silence":          silent(""),
		"hangs-up":         closing(""),
	}
}

const natsInfo = `INFO {"server_id":"X","version":"2.10.0","proto":1,"headers":true,"max_payload":4000000,"jetstream":true}` + "\r\n"

func natsLies() map[string]lie {
	unavailable := `"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}`
	var urls strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&urls, `"10.%d.%d.1:4222",`, i/250, i%250)
	}
	return map[string]lie{
		"slow-info":       slow(`INFO {"server_id":"` + strings.Repeat("a", 10_000)),
		"huge-info":       endless(`INFO {"server_id":"`, "a"),
		"many-urls":       silent(strings.TrimSuffix(natsInfo, "}\r\n") + `,"connect_urls":[` + urls.String() + `"10.0.0.1:4222"]}` + "\r\nPONG\r\n"),
		"endless-pings":   endless(natsInfo+"PONG\r\n", "PING\r\n"),
		"endless-infos":   endless(natsInfo+"PONG\r\n", natsInfo),
		"huge-message":    endless(natsInfo+"PONG\r\nMSG _INBOX.x 1 2147483647\r\n", "a"),
		"negative-length": silent(natsInfo + "PONG\r\nMSG _INBOX.x 1 -5\r\n"),
		"wrong-protocol":  closing(sshGreeting),
		"half-an-answer":  silent("INFO {\"server_id\":"),
		"refuses-all":     natsAnswers("{" + unavailable + "}"),
		"refuses-praises": natsAnswers(`{"stream":"S","seq":7,` + unavailable + "}"),
		"silence":         natsAnswers(""),
		"hangs-up":        closing(natsInfo),
	}
}

// natsAnswers is a server that gives each message the same answer; none if it is empty.
func natsAnswers(answer string) lie {
	return func(c net.Conn, r *bufio.Reader) {
		if _, err := io.WriteString(c, natsInfo); err != nil {
			return
		}
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var subject, reply, say string
			var head, size int
			switch verb, _, _ := strings.Cut(strings.TrimSpace(line), " "); verb {
			case "PING":
				say = "PONG\r\n"
			case "HPUB":
				_, err = fmt.Sscanf(line, "HPUB %s %s %d %d", &subject, &reply, &head, &size)
			case "PUB":
				_, err = fmt.Sscanf(line, "PUB %s %s %d", &subject, &reply, &size)
			}
			if err != nil {
				return
			}
			if reply != "" {
				if _, err := r.Discard(size + 2); err != nil {
					return
				}
				if answer != "" {
					say = fmt.Sprintf("MSG %s 1 %d\r\n%s\r\n", reply, len(answer), answer)
				}
			}
			if _, err := io.WriteString(c, say); err != nil {
				return
			}
		}
	}
}

func kafkaLies() map[string]lie {
	all := map[string]lie{
		"wrong-protocol": closing("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
		"tls-alert":      closing("\x15\x03\x01\x00\x02\x02\x50"),
		"silence":        silent(""),
		"hangs-up":       closing(""),
	}
	for name, lie := range all {
		all[name] = first(lie)
	}
	all["huge-length"] = kafkaAnswers(func(id string) lie { return endless("\x7f\xff\xff\xff"+id, "\x00") })
	all["negative-length"] = kafkaAnswers(func(id string) lie { return silent("\xff\xff\xff\xff" + id) })
	all["huge-arrays"] = kafkaAnswers(func(id string) lie {
		return silent("\x00\x00\x00\x24" + id + "\x00\x00" + strings.Repeat("\x7f\xff\xff\xff", 7) + "\x00\x00")
	})
	all["compact-arrays"] = kafkaAnswers(func(id string) lie {
		return silent("\x00\x00\x00\x24" + id + strings.Repeat("\x00\xff\xff\xff\xff\x07\x7f\xff", 4))
	})
	all["half-an-answer"] = kafkaAnswers(func(id string) lie { return silent("\x00\x00\x00\x64" + id + "\x00\x00\x00\x00") })
	all["other-answers"] = kafkaAnswers(func(string) lie { return endless("", "\x00\x00\x00\x06\x7f\x00\x00\x01\x00\x00") })
	all["slow"] = kafkaAnswers(func(id string) lie { return slow("\x00\x00\x27\x10" + id + strings.Repeat("\x00", 10_000)) })
	all["empty"] = kafkaAnswers(func(id string) lie { return silent("\x00\x00\x00\x04" + id) })
	return all
}

// kafkaAnswers lies to the first request of a connection, whose number is given.
func kafkaAnswers(answer func(id string) lie) lie {
	return func(c net.Conn, r *bufio.Reader) {
		var head [12]byte // size, kind, version, number
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		if size := binary.BigEndian.Uint32(head[:]); size > 8 {
			if _, err := r.Discard(int(size) - 8); err != nil {
				return
			}
		}
		answer(string(head[8:]))(c, r)
	}
}
