package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres"
)

// TEMPORARY until source/postgres has these.

func pgSetup(ctx context.Context, cfg postgres.Config) error {
	sql, err := postgres.SetupSQL(cfg)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func pgAsk(ctx context.Context, cfg postgres.Config, r *checkpoint.Request) (id int64, err error) {
	conn, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	sel, _ := json.Marshal(r.Selection)
	err = conn.QueryRow(ctx, `insert into tailbox_request (pipeline, verb, selection, reason, "by") values ($1,$2,$3,$4,$5) returning id`, cfg.Pipeline, string(r.Verb), string(sel), r.Reason, r.By).Scan(&id)
	return id, err
}

func pgResult(ctx context.Context, cfg postgres.Config, id int64) (*postgres.RequestResult, bool, error) {
	conn, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close(ctx)
	var text *string
	var done bool
	if err := conn.QueryRow(ctx, `select result::text, done_at is not null from tailbox_request where id=$1`, id).Scan(&text, &done); err != nil {
		return nil, false, err
	}
	r := &postgres.RequestResult{}
	if text != nil {
		err = json.Unmarshal([]byte(*text), r)
	}
	return r, done, err
}

func listParked(ctx context.Context, p *parts, sel checkpoint.Selection) (out []checkpoint.Parked, more bool, err error) {
	conn, err := pgx.Connect(ctx, p.config.Source.URL)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close(ctx)
	var states []string
	for _, s := range sel.States {
		states = append(states, string(s))
	}
	rows, err := conn.Query(ctx, `select sink, message_group, type, message_id, state, attempts, coalesce(last_error,''), coalesce(error_class,'') from tailbox_parked where pipeline=$1 and state = any($2) and ($3::text[] is null or message_id = any($3)) order by sink, message_group, position`, p.config.Pipeline, states, sel.IDs)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var x checkpoint.Parked
		x.Message = &outbox.Message{}
		if err := rows.Scan(&x.Sink, &x.Message.Group, &x.Message.Type, &x.Message.ID, &x.State, &x.Attempts, &x.LastError, &x.ErrorClass); err != nil {
			return nil, false, err
		}
		out = append(out, x)
	}
	return out, false, rows.Err()
}
