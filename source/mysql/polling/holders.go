package polling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/poll"
)

const (
	// cachedFor is for how long the server answers questions for its transactions from what it found for the one before, and
	// somewhat more. Each question prolongs that, whoever asks.
	cachedFor = 110 * time.Millisecond
	// turnsLock is a lock that every relay on the server takes for its question, and turnMost the seconds for which one waits for it. Without
	// it, those that ask would keep an old list alive for each other. One that is suspended while it holds the lock holds up nobody for longer.
	turnsLock = "tailbox:transactions"
	turnMost  = 5
)

// firstNameless is where numbers begin that MySQL shows for transactions without one; MariaDB shows 0.
const firstNameless = 1 << 48

// looks are the questions for transactions, told apart by a mark in their text.
type looks struct {
	mark string
	n    int
}

func newLooks() looks { return looks{mark: fmt.Sprintf("tailbox %016x", rand.Uint64())} }

// Holders implements poll.Table. A number is drawn by a statement whose transaction is on the server's list of transactions or,
// for a moment at its beginning, not yet: then its session is among those at work. So the sessions are listed first, and then the
// transactions.
//
// The list of transactions may be an old one (cachedFor). Ours is on it as well, with the text of its present statement: where
// that is another one's, the list is not about now.
//
// Where somebody else has just asked, nobody of us asks until the list is renewed, and then this one does.
func (t *Table) Holders(ctx context.Context) (list []poll.Holder, known bool, wait time.Duration, err error) {
	if _, err := t.conn.Exec(ctx, fmt.Sprintf("DO GET_LOCK('%s', %d)", turnsLock, turnMost)); err != nil {
		return nil, false, 0, fmt.Errorf("wait for others that list transactions: %w", err)
	}
	list, known, err = t.holders(ctx)
	if err == nil && !known {
		select {
		case <-ctx.Done():
			return nil, false, 0, ctx.Err()
		case <-time.After(cachedFor):
		}
		list, known, err = t.holders(ctx)
	}
	if err == nil {
		_, err = t.conn.Exec(ctx, "DO RELEASE_LOCK('"+turnsLock+"')")
	}
	// Not in step with what else asks every so often.
	return list, known, cachedFor + rand.N(cachedFor), err
}

func (t *Table) holders(ctx context.Context) (list []poll.Holder, known bool, err error) {
	sessions, err := t.atWork(ctx)
	if err != nil {
		return nil, false, err
	}
	if _, err := t.conn.Exec(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return nil, false, fmt.Errorf("list transactions: %w", err)
	}
	t.looks.n++
	mark := fmt.Sprintf("/* %s %d */", t.looks.mark, t.looks.n)
	r, err := t.conn.Exec(ctx, "SELECT "+mark+" trx_id, trx_mysql_thread_id, CAST(trx_started AS CHAR), trx_is_read_only, LEFT(COALESCE(trx_query, ''), 100) "+
		"FROM information_schema.innodb_trx")
	unreadable := server.Code(err) == server.CodeCannotConvert
	if err == nil || unreadable {
		_, err = t.conn.Exec(ctx, "COMMIT")
	}
	if err != nil || unreadable {
		return nil, false, server.Wrap("list transactions", err)
	}
	own := strconv.FormatUint(uint64(t.conn.Client.GetConnectionID()), 10)
	listed := map[string]bool{own: true}
	for i := range r.Values {
		var f [5]string
		for j := range f {
			if f[j], err = r.GetString(i, j); err != nil {
				return nil, false, fmt.Errorf("list transactions: %w", err)
			}
		}
		if f[1] == own {
			known = strings.Contains(f[4], mark)
			continue
		}
		listed[f[1]] = true
		if f[3] != "1" { // one that only reads never draws
			list = append(list, transaction(f[0], f[1], f[2]))
		}
	}
	known = known && r.Warnings == 0 // a warning says that the list was too long to be shown whole
	if !known {
		return nil, false, nil
	}
	for _, id := range sessions {
		if !listed[id] {
			list = append(list, poll.Holder{ID: "session " + id, About: "connection " + id})
		}
	}
	return list, true, nil
}

// transaction names a transaction of the list. One that has not written yet has no number: it is known by its session and the time at
// which it began, and gets its number later.
func transaction(id, session, started string) poll.Holder {
	at, open := "session "+session, "open "+session+" "+started
	n, err := strconv.ParseUint(id, 10, 64)
	h := poll.Holder{ID: open, Before: []string{at}, About: "connection " + session + " since " + started}
	if err == nil && n > 0 && n < firstNameless {
		h.ID, h.Before = "transaction "+id, []string{at, open}
	}
	if session == "0" { // prepared, and its session is gone
		h.Before, h.Detached, h.About = nil, true, "prepared (XA) transaction "+id+" since "+started
	}
	return h
}

// idleCommands are those of sessions that draw no numbers. Sessions of the server's own (events that it runs by time) are at work
// while they show a statement.
func idleCommands() []string {
	return []string{"sleep", "binlog dump", "binlog dump gtid", "ping", "slave_io", "slave_sql", "slave_worker"}
}

// atWork lists the sessions that are at a statement.
func (t *Table) atWork(ctx context.Context) (ids []string, err error) {
	rows, err := t.conn.Texts(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, r := range rows {
		if len(r) < 8 {
			return nil, fmt.Errorf("list sessions: %d columns: %w", len(r), binlog.ErrProtocol)
		}
		id, user, command, state, statement := r[0], r[1], strings.ToLower(r[4]), strings.ToLower(r[6]), r[7]
		if (command == "daemon" || command == "connect") && statement == "" || slices.Contains(idleCommands(), command) || user == "system user" || state == "user sleep" || state == "user lock" {
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}
