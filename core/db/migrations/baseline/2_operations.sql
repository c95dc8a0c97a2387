CREATE FUNCTION notify_operator_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('operator_switch', COALESCE(NEW.name, OLD.name));
    RETURN NULL;
END
$$;
CREATE TRIGGER operator_switch_changed AFTER INSERT OR DELETE OR UPDATE ON operator_switch
    FOR EACH ROW EXECUTE FUNCTION notify_operator_switch();

CREATE FUNCTION notify_keeper_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM pg_notify('keeper_job', NEW.id::text);
    ELSIF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
        PERFORM pg_notify('keeper_job_done', NEW.id::text);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER keeper_job_changed AFTER INSERT OR UPDATE ON keeper_job
    FOR EACH ROW EXECUTE FUNCTION notify_keeper_job();
